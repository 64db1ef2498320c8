"""Sends a run's figures to the services that its run file names; it never delays the run, nor do its errors end it."""

import contextlib
import importlib.util
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from coordinator.tracking.to_trackio import TrackioMirror
from coordinator.tracking.to_wandb import WandbMirror
from swarm.errors import in_a_line
from swarm.run_file import RunFile

logger = logging.getLogger(__name__)

_PENDING = 10_000  # figures in the queue while a service is slow: hours, at a step every few seconds


class Mirror(Protocol):
    """A service that draws figures. Its methods may block and may raise anything."""

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Send the figures of a global step."""

    def finish(self) -> None:
        """Send what is left."""


class Tracker:
    """Sends figures to each of its mirrors; without any it discards them."""

    def __init__(self, *senders: "Sender") -> None:
        self._senders = senders

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Send the figures of a global step; returns at once and never raises."""
        for sender in self._senders:
            sender.log(figures, step)

    def finish(self, timeout: float = 10.0) -> None:
        """Send what is left, for at most `timeout` seconds; never raises."""
        end = time.monotonic() + timeout
        for sender in self._senders:
            sender.ask_to_finish()
        for sender in self._senders:
            sender.wait(end - time.monotonic())


def open_tracker(run: RunFile, state_folder: Path) -> Tracker:
    """The tracker that the run file asks for: see `coordinator.wandb_project` and `coordinator.trackio`.

    A restarted coordinator continues the same curves: their ids are kept in `state_folder`, and so are figures
    that a service does not take.
    """
    senders = []
    if (project := run.coordinator.wandb_project) is not None and _is_installed("wandb", project):
        senders.append(Sender("wandb", partial(WandbMirror, run, project, state_folder)))
    if (where := run.coordinator.trackio) is not None and _is_installed("trackio", where):
        senders.append(Sender("trackio", partial(TrackioMirror, run, where, state_folder)))
    return Tracker(*senders)


def _is_installed(name: str, where: str) -> bool:
    if importlib.util.find_spec(name) is None:
        logger.warning("figures are to go to %s, but %s is not installed; pip install %s", where, name, name)
        return False
    return True


class Sender:
    """Calls a mirror in one background thread, fed by a queue."""

    def __init__(self, name: str, start: Callable[[], Mirror]) -> None:
        self._has_failed = False
        self._name, self._start = name, start
        self._pending: queue.Queue[tuple[Mapping[str, float], int] | None] = queue.Queue(_PENDING)
        self._worker = threading.Thread(target=self._work, name=name, daemon=True)
        self._worker.start()

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Have the figures of a global step sent."""
        try:
            self._pending.put_nowait((dict(figures), step))
        except queue.Full:
            self._report_failure("it does not keep up")

    def ask_to_finish(self) -> None:
        """Have the mirror finish after what is in the queue."""
        with contextlib.suppress(queue.Full):  # then it is too late for that
            self._pending.put_nowait(None)

    def wait(self, seconds: float) -> None:
        """Wait at most so long for the mirror to have finished."""
        if not self._pending.full():
            self._worker.join(max(seconds, 0.0))

    def _work(self) -> None:
        try:
            mirror = self._start()
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
            logger.warning(
                "%s failed (%s); the run goes on, and later failures are not shown", self._name, in_a_line(reason)
            )
