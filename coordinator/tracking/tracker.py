"""Sends figures to Weights & Biases, if the run file asks. The run neither waits for it nor ends by its errors."""

import contextlib
import importlib.util
import logging
import queue
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from coordinator.tracking.to_wandb import WandbMirror
from swarm.errors import in_a_line
from swarm.run_file import RunFile

logger = logging.getLogger(__name__)

_PENDING = 10_000  # figures in the queue while the service is slow: hours, at a step every few seconds


class Tracker:
    """Calls a mirror in one background thread, fed by a queue; without one to start it discards figures."""

    def __init__(self, start: Callable[[], WandbMirror] | None = None) -> None:
        self._has_failed = False
        self._pending: queue.Queue[tuple[Mapping[str, float], int] | None] = queue.Queue(_PENDING)
        self._worker: threading.Thread | None = None
        if start is not None:
            self._worker = threading.Thread(target=self._work, args=(start,), name="wandb", daemon=True)
            self._worker.start()

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Have the figures of a global step sent; returns at once and never raises."""
        if self._worker is not None:
            try:
                self._pending.put_nowait((dict(figures), step))
            except queue.Full:
                self._report_failure("it does not keep up")

    def finish(self, timeout: float = 10.0) -> None:
        """Send what is left, for at most `timeout` seconds; never raises."""
        if self._worker is not None:
            with contextlib.suppress(queue.Full):  # then it is too late for that
                self._pending.put_nowait(None)
                self._worker.join(timeout)

    def _work(self, start: Callable[[], WandbMirror]) -> None:
        try:
            mirror = start()
            while (one := self._pending.get()) is not None:
                try:
                    mirror.log(*one)
                except Exception as error:
                    self._report_failure(error)
            mirror.finish()
        except Exception as error:
            self._report_failure(error)

    def _report_failure(self, reason: object) -> None:
        if not self._has_failed:
            self._has_failed = True
            logger.warning("wandb failed (%s); the run goes on, and later failures are not shown", in_a_line(reason))


def open_tracker(run: RunFile, state_folder: Path) -> Tracker:
    """The tracker that the run file asks for: see `coordinator.wandb_project`.

    A restarted coordinator continues the same curves: their id is kept in `state_folder`, and so are figures that the
    service does not take.
    """
    project = run.coordinator.wandb_project
    if project is None:
        return Tracker()
    if importlib.util.find_spec("wandb") is None:
        logger.warning("figures are to go to %s, but wandb is not installed; pip install wandb", project)
        return Tracker()
    return Tracker(partial(WandbMirror, run, project, state_folder))
