"""Releasing in the background: a thread that takes checkpoints to the Hub when they are due, and never gives up.

The swarm and the books never wait for it. What fails is said once and tried again after a pause that grows.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from coordinator.checkpoints.retention import Checkpoint, TrainerState
from coordinator.ledger.ledger import Ledger
from coordinator.notebook.build import FILE_NAME, at_the_hub
from coordinator.release.build import first_card, make_release
from coordinator.release.facts import Record, read_record, read_unnamed, unknown_names
from coordinator.release.hub import HubRepository, NotAllowed, ReleaseError
from coordinator.release.release import Release, check_owner, missing_tags, next_release, publish, tags_of
from swarm.errors import SahajError
from swarm.logging.logs import log_failure
from swarm.run_file import ReleaseSection, RunFile

FIRST_PAUSE, LONGEST_PAUSE = 15.0, 1800.0  # seconds between two attempts
FINISHING = 10.0  # seconds in which a release that was begun may end, once the coordinator has to leave


@dataclass(frozen=True)
class ReleaseOffice:
    """What a releaser works with. `also` gives further files of a release, by name."""

    run: RunFile
    settings: ReleaseSection
    fingerprint: str
    folder: Path  # of the coordinator's state
    ledger: Ledger
    say: Callable[[str], None]
    also: Callable[[], Mapping[str, bytes]] = dict
    first_pause: float = FIRST_PAUSE


class Releaser:
    """Holds at most one release at a time. `offer` is called by one thread, the rest happens in another."""

    def __init__(self, office: ReleaseOffice):
        self._office = office
        self._repository = HubRepository(office.settings.repo, private=office.settings.private)
        self._lock = threading.Lock()
        self._offered: list[Checkpoint] = []
        self._held: Checkpoint | None = None  # is being released
        self._released: int | None = None  # newest global step at the Hub; None while that is not known
        self._notebook = False  # whether the newest release at the Hub carries it, as far as is known
        self._told = ""  # the last problem
        self._unknown: tuple[str, ...] = ()  # names that were said to be nobody's
        self._news, self._leaving = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="release", daemon=True)

    def start(self) -> None:
        """Begin; the first that it does is to see whether it may write to the repository."""
        self._thread.start()

    def offer(self, checkpoints: list[Checkpoint]) -> frozenset[Path]:
        """Tell which checkpoints there are now; returns those that have to stay: they are being released, or next."""
        with self._lock:
            self._offered = checkpoints
            released = self._released or 0
            needed = {self._held, self._next(released)}
            if self._held is not None:
                needed.add(self._next(max(released, self._held.step)))
        self._news.set()
        return frozenset(one.path for one in needed if one is not None)

    def notebook(self) -> str:
        """Where the notebook of the newest release lies for everybody to open; empty while it carries none."""
        return at_the_hub(self._office.settings) if self._notebook else ""

    def finish(self, timeout: float = FINISHING) -> None:
        """Begin nothing new, and wait for at most `timeout` seconds for what was begun."""
        self._leaving.set()
        self._news.set()
        self._thread.join(timeout)
        if self._thread.is_alive() and self._held is not None:
            self._office.say(
                f"The release of global step {self._held.step} was not finished; it goes on when the coordinator is "
                "started again."
            )

    def _work(self) -> None:
        pause = self._office.first_pause
        while True:
            self._news.clear()
            if self._leaving.is_set():  # asked after clearing: `finish` sets it first, and is heard in any case
                return
            if self._guarded(self._release_what_is_due):
                pause = self._office.first_pause
                self._news.wait()
            else:
                self._leaving.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _release_what_is_due(self) -> None:
        if self._released is None:
            self._released = self._arrive()
        while not self._leaving.is_set() and (checkpoint := self._hold()) is not None:
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
                self._held = None
            self._told = ""
            tags = f" as {', '.join(release.tags)}" if release.tags else ""
            self._office.say(f"global step {checkpoint.step}: released{tags} at {self._repository.url} ({commit[:8]})")

    def _prepare(self, checkpoint: Checkpoint) -> Release:
        office, total = self._office, self._office.run.optimizer.total_steps
        return make_release(
            office.run,
            checkpoint,
            office.settings.repo,
            record=self._record(),
            also=office.also() if checkpoint.step < total else {},  # nobody joins a run that is over
            tags=tags_of(checkpoint.step, self._released or 0, office.settings.milestones, total),
        )

    def _record(self) -> Record:
        office = self._office
        unnamed = read_unnamed(office.folder)
        record = read_record(office.ledger, office.run, unnamed, has_passes=office.run.access is not None)
        if (unknown := record.work.credit.unknown) != self._unknown:
            self._unknown = unknown
            if unknown:
                office.say(unknown_names(unknown))
        return record

    def _arrive(self) -> int:
        """See that we may write, and whose releases are there; returns the global step of the newest."""
        office = self._office
        self._repository.open()
        self._repository.check_card(first_card(office.run, office.settings.repo))
        head = self._repository.head()
        state = head.state if head is not None else None
        check_owner(self._repository.name, state, office.run.name, office.fingerprint)
        if head is not None and state is not None:
            self._notebook = FILE_NAME in head.files
            there, total = self._repository.tags(), office.run.optimizer.total_steps
            for tag in missing_tags(state.step, there, office.settings.milestones, total):
                self._repository.tag(tag, head.commit)
        newest = max((one.step for one in self._offered), default=0)
        office.say(f"Checkpoints are released at {self._repository.url}.")
        if state is not None and state.step > newest:
            office.say(
                f"attention: {self._repository.name} has a release of global step {state.step}, later than what is "
                "here; nothing is released until the run is beyond it (--from-hub goes on from it)"
            )
        return state.step if state is not None else 0

    def _check_head(self, step: int, state: TrainerState | None) -> None:
        """See that nobody else's release, and none of a later step, is written over."""
        check_owner(self._repository.name, state, self._office.run.name, self._office.fingerprint)
        if state is not None and state.step > step:
            self._released = None  # look anew at what is there
            raise ReleaseError(f"{self._repository.name} has a release of global step {state.step} meanwhile")

    def _hold(self) -> Checkpoint | None:
        with self._lock:
            self._held = self._next(self._released or 0)
            return self._held

    def _next(self, released: int) -> Checkpoint | None:
        total = self._office.run.optimizer.total_steps
        step = next_release((one.step for one in self._offered), released, self._office.settings.every, total)
        return next((one for one in self._offered if one.step == step), None)

    def _guarded(self, task: Callable[[], None]) -> bool:
        try:
            task()
        except NotAllowed as error:
            self._tell(f"problem: nothing can be released: {error}; the run goes on meanwhile")
        except SahajError as error:
            if not self._leaving.is_set():
                self._tell(f"problem: the release waits, and is tried again: {error}")
        except Exception as error:
            log_failure(error, "a release has failed")
            self._tell(f"problem: the release waits, and is tried again ({type(error).__name__}: {error})")
        else:
            return True
        return False

    def _tell(self, problem: str) -> None:
        if problem != self._told:
            self._told = problem
            self._office.say(problem)
