"""The disk of a coordinator: what a process finds again after a crash, and what it was told to write and has not."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from averaging.log.entry_file import Record, chain_of
from averaging.log.header import Ballot, Certificate, Entry, Gap, Header, HeaderKind, SnapshotName
from averaging.protocol.messages import Accepted
from tests.simulation.ledger import Ledger
from tests.simulation.state import FIRST, digest_of


class Written(Record, frozen=True):
    """An entry, and the headers that are missing from then on; None: the same as before."""

    gaps: tuple[Gap, ...] | None = None


@dataclass(frozen=True)
class Found:
    """What a restart goes on from: it loads the snapshot `base`, and applies what follows."""

    entries: list[Entry]  # oldest first, as many as a restart needs
    base: SnapshotName
    snapshots: list[SnapshotName]  # `base` is one of them
    gaps: tuple[Gap, ...]  # older headers that are missing
    waited: float  # seconds for which there was no quorum for the step after the last entry


@dataclass
class Disk:
    """What a coordinator finds again after a crash."""

    log: list[Written] = field(default_factory=list)  # all that it ever knew of, in that order
    contents: dict[str, Any] = field(default_factory=dict)
    snapshots: list[SnapshotName] = field(default_factory=list)
    accepted: Accepted | None = None
    waited: tuple[str, float] = "", 0.0  # for a quorum
    is_full: bool = False
    since: int = 0  # step of the oldest header that a restart needs

    def aged(self, steps: int) -> "Disk":
        """As it was some steps ago, but not before its oldest snapshot."""
        log = self.log
        for _ in range(steps):
            newest = max(at for at, one in enumerate(log) if one.is_applied)
            earlier = chain_of(log[:newest])
            tip = earlier[-1].header if earlier else None
            if tip is None or tip.digest != log[newest].entry.header.previous or tip.step < self.snapshots[0].step:
                break  # it has opened the run, or loaded a snapshot
            log = log[:newest]
        entries = chain_of(log)
        tip = entries[-1].header
        snapshots = [one for one in self.snapshots if one.step <= tip.step]
        kept = {one.digest for one in snapshots}
        kept.update(digest for entry in entries for digest in entry.header.needed)
        accepted = (
            self.accepted if not steps and self.accepted and self.accepted.header.previous == tip.digest else None
        )
        if accepted is not None:
            kept.update(accepted.header.needed)
        contents = {digest: content for digest, content in self.contents.items() if digest in kept}
        return Disk(list(log), contents, snapshots, accepted, self.waited, since=self.since)

    def found(self) -> Found:
        """The log, from the oldest header that a restart needs, and the newest snapshot of it.

        Snapshots may be named before the log leads to them.
        """
        entries = chain_of(self.log)
        tip = entries[-1].header
        recent = [one for one in entries if one.header.step >= self.since]
        bases = [one for one in self.snapshots if one.step <= tip.step and one.digest in self.contents]
        base = bases[-1]
        is_enough = recent and recent[0].header.step <= base.step
        gaps = next((one.gaps for one in reversed(self.log) if one.gaps is not None), ())
        waited = self.waited[1] if self.waited[0] == tip.digest else 0.0
        held = [one for one in bases if one.step <= base.step]
        return Found(recent if is_enough else entries, base, held, gaps, waited)


class Journal:
    """What a coordinator writes to its disk, or will write when that has room again; and its ledger."""

    def __init__(self, disk: Disk):
        self.disk = disk
        self.ledger = Ledger()  # of what is written
        self._unsaved: list[Written] = []
        self._snapshots: list[SnapshotName] = []
        self._since = 0  # step of the oldest header that a restart needs

    @property
    def is_behind(self) -> bool:
        """Whether something is not written yet."""
        return bool(self._unsaved)

    def write(self, records: Iterable[Written], contents: Mapping[str, Any]) -> None:
        """Write down these records after those that wait, and all that is held by now."""
        self._unsaved += records
        disk = self.disk
        if disk.is_full:
            return
        for record in self._unsaved:
            self.ledger.enter(record.entry.header)
        disk.log, self._unsaved = [*disk.log, *self._unsaved], []
        disk.contents = dict(contents)
        disk.snapshots, disk.since = list(self._snapshots), self._since

    def write_proposal(self, accepted: Accepted, contents: Mapping[str, Any]) -> None:
        """With its chunks."""
        self.disk.accepted = accepted
        for digest in accepted.header.needed:
            self.disk.contents[digest] = contents[digest]

    def name_snapshots(self, snapshots: Iterable[SnapshotName], since: int) -> None:
        """These are written down from now on, and headers from a step on."""
        self._snapshots, self._since = list(snapshots), since

    def name_rollback(self, to: SnapshotName, held: Iterable[SnapshotName]) -> None:
        """The run goes on from a snapshot; of those that were named before, the ones that are still held stay."""
        kept = {to, *held}
        self._snapshots = [one for one in (*self._snapshots, to) if one in kept]

    def resume(self) -> Found:
        """What was written by the process before."""
        for record in self.disk.log:
            self.ledger.enter(record.entry.header)
        found = self.disk.found()
        self.name_snapshots(found.snapshots, self.disk.since)
        return found

    def handed_over(self, left: Sequence[Entry]) -> "Journal":
        """That of the next session, on a disk with room.

        Entries that were to be applied are left to it for their credit: their chain has lost.
        """
        another = Journal(replace(self.disk, log=list(self.disk.log), is_full=False))
        another.ledger = self.ledger
        another._unsaved = [*self._unsaved, *(Written(one, False, is_proven=False) for one in left)]
        another.name_snapshots(self._snapshots, self._since)
        return another


def first_disk(run: str, coordinator: str) -> Disk:
    """The disk of a coordinator that has opened a run."""
    ballot = Ballot(0, coordinator)
    digest = digest_of(FIRST)
    name = SnapshotName(0, digest)
    genesis = Header(run, 0, HeaderKind.GENESIS, "", ballot, tie_breaker=coordinator, snapshot=name)
    log = [Written(Entry(genesis, Certificate(ballot)), is_applied=True)]
    return Disk(log, contents={digest: FIRST}, snapshots=[name])
