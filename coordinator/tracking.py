"""Sends a run's figures to Weights & Biases; it never delays the run, and its errors do not end it."""

import importlib.util
import logging
import queue
import secrets
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swarm.errors import in_a_line
from swarm.files import write_file
from swarm.run_file import RunFile
from swarm.secret_variables import secret

logger = logging.getLogger(__name__)

KEY = "WANDB_API_KEY"
_PENDING = 10_000  # figures in the queue while wandb is slow: hours, at a step every few seconds
_START_SECONDS = 60.0  # to reach the server, after which figures are kept on disk


class Tracker:
    """Discards all figures; for runs without wandb."""

    failures = 0

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Send the figures of a global step; returns at once and never raises."""

    def finish(self, timeout: float = 10.0) -> None:
        """Send what is left, for at most `timeout` seconds; never raises."""


def open_tracker(run: RunFile, state_folder: Path, *, start_seconds: float = _START_SECONDS) -> Tracker:
    """The tracker that the run file asks for; a no-op without `coordinator.wandb_project`.

    A restarted coordinator continues the same wandb run: its id is kept in `state_folder`. Without a key
    or a connection, and with WANDB_MODE=offline, the figures go to `state_folder/wandb`, and `wandb sync`
    sends them.
    """
    project = run.coordinator.wandb_project
    if project is None:
        return Tracker()
    if importlib.util.find_spec("wandb") is None:
        logger.warning("coordinator.wandb_project is %s, but wandb is not installed; pip install wandb", project)
        return Tracker()
    return _WandbTracker(run, project, state_folder, start_seconds)


class _WandbTracker(Tracker):
    """Calls wandb in one background thread, fed by a queue, for wandb may block."""

    def __init__(self, run: RunFile, project: str, state_folder: Path, start_seconds: float) -> None:
        self.failures = 0
        self._run, self._project, self._folder = run, project, state_folder
        self._start_seconds = start_seconds
        self._pending: queue.Queue[dict[str, float] | None] = queue.Queue(_PENDING)
        self._worker = threading.Thread(target=self._work, name="wandb", daemon=True)
        self._worker.start()

    def log(self, figures: Mapping[str, float], step: int) -> None:
        try:
            self._pending.put_nowait({**figures, "global_step": step})
        except queue.Full:
            self._count_failure("it does not keep up")

    def finish(self, timeout: float = 10.0) -> None:
        try:
            self._pending.put_nowait(None)
        except queue.Full:
            return
        self._worker.join(timeout)

    def _work(self) -> None:
        try:
            mirror = self._start()
            while (figures := self._pending.get()) is not None:
                try:
                    mirror.log(figures)
                except Exception as error:
                    self._count_failure(error)
            mirror.finish()
        except Exception as error:
            self._count_failure(error)

    def _start(self) -> Any:
        import wandb

        self._folder.mkdir(parents=True, exist_ok=True)
        mode = wandb.setup(wandb.Settings(silent=True)).settings.mode
        if mode in ("offline", "disabled"):
            return self._open(wandb, mode)
        try:
            if not (secret(KEY) or wandb.login(prompt=False, verify=False)):
                raise ValueError("no key; run `wandb login`")
            return self._open(wandb, mode)
        except Exception as error:
            logger.warning(
                "wandb: %s; figures are kept in %s, and `wandb sync` sends them",
                in_a_line(error),
                self._folder / "wandb",
            )
            wandb.teardown()  # or the id counts as in use by the failed start
            return self._open(wandb, "offline")

    def _open(self, wandb: Any, mode: str) -> Any:
        settings = wandb.Settings(
            api_key=secret(KEY) or None,
            init_timeout=self._start_seconds,
            finish_timeout=10.0,
            # nothing about the machine and its code is sent; the console is Rich's
            console="off",
            silent=True,
            disable_code=True,
            disable_git=True,
            x_disable_stats=True,
            x_disable_machine_info=True,
        )
        mirror = wandb.init(
            project=self._project,
            name=self._run.name,
            id=_wandb_id(self._folder),
            resume="allow",
            dir=str(self._folder),
            mode=mode,
            config=self._run.model_dump(mode="json", exclude={"coordinator"}),  # its database URL holds a password
            settings=settings,
        )
        mirror.define_metric("*", step_metric="global_step")  # wandb's own counter refuses a step that comes late
        return mirror

    def _count_failure(self, reason: object) -> None:
        self.failures += 1
        if self.failures == 1:
            logger.warning("wandb failed (%s); the run goes on, and later failures are only counted", in_a_line(reason))


def _wandb_id(state_folder: Path) -> str:
    path = state_folder / "wandb-id"
    if not path.is_file():
        write_file(path, secrets.token_hex(4))
    return path.read_text(encoding="utf-8").strip()
