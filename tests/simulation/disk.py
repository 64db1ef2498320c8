"""The disk of a coordinator: what a process finds again after a crash, and what it was told to write and has not."""

from dataclasses import dataclass, field
from typing import Any

from averaging.log.entry_file import Record, chain_of
from averaging.log.header import Ballot, Certificate, Entry, Header, HeaderKind, SnapshotName
from averaging.protocol.messages import Accepted
from tests.simulation.state import FIRST, digest_of


@dataclass
class Disk:
    """What a coordinator finds again after a crash."""

    log: list[Record] = field(default_factory=list)  # all that it ever knew of, in that order
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

    def found(self) -> tuple[list[Entry], SnapshotName]:
        """The log, from the oldest header that a restart needs, and the newest snapshot of it.

        Snapshots may be named before the log leads to them.
        """
        entries = chain_of(self.log)
        tip = entries[-1].header
        recent = [one for one in entries if one.header.step >= self.since]
        bases = [one for one in self.snapshots if one.step <= tip.step and one.digest in self.contents]
        is_enough = recent and recent[0].header.step <= bases[-1].step
        return (recent if is_enough else entries), bases[-1]


def first_disk(run: str, coordinator: str) -> Disk:
    """The disk of a coordinator that has opened a run."""
    ballot = Ballot(0, coordinator)
    digest = digest_of(FIRST)
    name = SnapshotName(0, digest)
    genesis = Header(run, 0, HeaderKind.GENESIS, "", ballot, tie_breaker=coordinator, snapshot=name)
    log = [Record(Entry(genesis, Certificate(ballot)), is_applied=True)]
    return Disk(log, contents={digest: FIRST}, snapshots=[name])
