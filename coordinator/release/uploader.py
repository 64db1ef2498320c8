"""Uploads checkpoints to the Hub when their release is due, in a thread for which nothing else waits.

A failure is reported once and tried again after a growing pause, without end.
"""

import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from coordinator.checkpoints.checkpoint import Checkpoint, TrainerState
from coordinator.notebook.build import FILE_NAME, at_the_hub
from coordinator.release.build import first_card, make_release
from coordinator.release.facts import Record, read_record, read_unnamed, unknown_names
from coordinator.release.hub import HubRepository, NotAllowed, ReleaseError
from coordinator.release.publish import Release, check_owner, publish
from coordinator.release.schedule import missing_tags, next_release, tags_of
from coordinator.run_context import RunContext
from swarm.errors import SahajError
from swarm.logging.logs import log_failure
from swarm.run_file import ReleaseSection

FIRST_PAUSE, LONGEST_PAUSE = 15.0, 1800.0  # seconds between two attempts
FINISHING = 10.0  # seconds for a release under way to end when the coordinator stops


class Releaser:
    """Releases one checkpoint at a time, in a thread of its own; `offer` is called by one other thread."""

    def __init__(
        self,
        context: RunContext,
        settings: ReleaseSection,
        *,
        also: Callable[[], Mapping[str, bytes]] = dict,
        told: Callable[[TrainerState, tuple[str, ...], str], None] = lambda state, tags, url: None,
        first_pause: float = FIRST_PAUSE,
    ):
        """`also` gives further files of a release, by name; `told` is told of each one, with its tags and its URL."""
        self._context, self._run, self._settings, self._say = context, context.run, settings, context.say
        self._also, self._told, self._first_pause = also, told, first_pause
        self._repository = HubRepository(settings.repo, private=settings.private)
        self._lock = threading.Lock()
        self._offered: list[Checkpoint] = []
        self._uploading: Checkpoint | None = None  # the one being released, if any
        self._released: int | None = None  # newest global step at the Hub; None until it is known
        self._notebook = False  # whether the newest release at the Hub has one, as far as is known
        self._reported = ""  # the last problem
        self._unknown: tuple[str, ...] = ()  # names in the list of unnamed people that are nobody's, as reported
        self._changed, self._leaving = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="release", daemon=True)

    def start(self) -> None:
        """Start the thread, which first checks that it may write to the repository."""
        self._thread.start()

    def offer(self, checkpoints: list[Checkpoint]) -> frozenset[Path]:
        """Say which checkpoints there are now; returns those that must be kept: they are being released, or next."""
        with self._lock:
            self._offered = checkpoints
            released = self._released or 0
            needed = {self._uploading, self._next(released)}
            if self._uploading is not None:
                needed.add(self._next(max(released, self._uploading.step)))
        self._changed.set()
        return frozenset(one.path for one in needed if one is not None)

    def notebook(self) -> str:
        """URL of the notebook of the newest release, for everybody to open; empty if it has none."""
        return at_the_hub(self._settings) if self._notebook else ""

    def finish(self, timeout: float = FINISHING) -> None:
        """Start no further release, and wait at most `timeout` seconds for the one under way."""
        self._leaving.set()
        self._changed.set()
        self._thread.join(timeout)
        if self._thread.is_alive() and (uploading := self._uploading) is not None:
            self._say(
                f"The release of global step {uploading.step} was not finished; it goes on when the coordinator "
                "is started again."
            )

    def _work(self) -> None:
        pause = self._first_pause
        while True:
            self._changed.clear()
            if self._leaving.is_set():  # checked after clearing, so that `finish` cannot be missed
                return
            if self._reporting_errors(self._release_what_is_due):
                pause = self._first_pause
                self._changed.wait()
            else:
                self._leaving.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _release_what_is_due(self) -> None:
        if self._released is None:
            self._released = self._connect()
        while not self._leaving.is_set() and (checkpoint := self._take_next()) is not None:
            try:
                release = self._prepare(checkpoint)
                commit = publish(
                    self._repository,
                    release,
                    lambda: not self._leaving.is_set(),
                    check=partial(self._check_head, checkpoint.step),
                )
                self._released, self._notebook = checkpoint.step, FILE_NAME in release.files
            finally:
                self._uploading = None
            self._reported = ""
            tags = f" as {', '.join(release.tags)}" if release.tags else ""
            self._say(f"global step {checkpoint.step}: released{tags} at {self._repository.url} ({commit[:8]})")
            self._told(checkpoint.state, tuple(release.tags), self._repository.url)

    def _prepare(self, checkpoint: Checkpoint) -> Release:
        total = self._run.optimizer.total_steps
        return make_release(
            self._run,
            checkpoint,
            self._settings.repo,
            record=self._record(),
            also=self._also() if checkpoint.step < total else {},  # nobody joins a finished run
            tags=tags_of(checkpoint.step, self._released or 0, self._settings.milestones, total),
        )

    def _record(self) -> Record:
        unnamed = read_unnamed(self._context.folder)
        record = read_record(self._context.ledger, self._run, unnamed)
        if (unknown := record.credit.unknown) != self._unknown:
            self._unknown = unknown
            if unknown:
                self._say(unknown_names(unknown))
        return record

    def _connect(self) -> int:
        """Check that we may write, and whose releases are there; returns the global step of the newest."""
        self._repository.open()
        self._repository.check_card(first_card(self._run, self._settings.repo))
        head = self._repository.head()
        state = head.state if head is not None else None
        check_owner(self._repository.name, state, self._run.name, self._context.fingerprint.digest)
        if head is not None and state is not None:
            self._notebook = FILE_NAME in head.files
            there, total = self._repository.tags(), self._run.optimizer.total_steps
            for tag in missing_tags(state.step, there, self._settings.milestones, total):
                self._repository.tag(tag, head.commit)
        newest = max((one.step for one in self._offered), default=0)
        self._say(f"Checkpoints are released at {self._repository.url}.")
        if state is not None and state.step > newest:
            self._say(
                f"attention: {self._repository.name} has a release of global step {state.step}, later than what is "
                "here; nothing is released until the run is beyond it (--from-hub goes on from it)"
            )
        return state.step if state is not None else 0

    def _check_head(self, step: int, state: TrainerState | None) -> None:
        """Refuse to replace a release of another run, or of a later global step."""
        check_owner(self._repository.name, state, self._run.name, self._context.fingerprint.digest)
        if state is not None and state.step > step:
            self._released = None  # read again what is there
            raise ReleaseError(f"{self._repository.name} has a release of global step {state.step} meanwhile")

    def _take_next(self) -> Checkpoint | None:
        with self._lock:
            self._uploading = self._next(self._released or 0)
            return self._uploading

    def _next(self, released: int) -> Checkpoint | None:
        total = self._run.optimizer.total_steps
        step = next_release((one.step for one in self._offered), released, self._settings.every, total)
        return next((one for one in self._offered if one.step == step), None)

    def _reporting_errors(self, task: Callable[[], None]) -> bool:
        try:
            task()
        except NotAllowed as error:
            self._report(f"problem: nothing can be released: {error}; the run goes on meanwhile")
        except SahajError as error:
            if not self._leaving.is_set():
                self._report(f"problem: the release was not uploaded and will be tried again: {error}")
        except Exception as error:
            log_failure(error, "a release has failed")
            reason = f"{type(error).__name__}: {error}"
            self._report(f"problem: the release was not uploaded and will be tried again ({reason})")
        else:
            return True
        return False

    def _report(self, problem: str) -> None:
        if problem != self._reported:
            self._reported = problem
            self._say(problem)
