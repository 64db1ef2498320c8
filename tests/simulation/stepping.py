"""What one process does outside of its event loop, in order: it averages, changes its state, and writes to its disk.

The disk of a coordinator may be full, and whatever is not done in the event loop may hang.
"""

import math
from collections import deque
from typing import TYPE_CHECKING, Any

from averaging.log.header import Entry, HeaderKind, SnapshotName
from averaging.protocol.actions import (
    Action,
    Adopt,
    Apply,
    Average,
    Compare,
    Credit,
    Forget,
    Load,
    Rejoin,
    SaveProposal,
    SaveWaited,
)
from averaging.protocol.messages import Accepted
from tests.simulation.disk import Written

if TYPE_CHECKING:
    from tests.simulation.process import Process

FSYNC = 0.02  # seconds until a proposal is on the disk
AGAIN = 0.5  # seconds until it looks again whether it can go on


class Stepping:
    """Carries out what the machine of a process asks for, but for sending."""

    def __init__(self, process: "Process"):
        self._process, self._world, self._oracle = process, process.world, process.oracle
        self._replay = process.replay
        self._unsaved: list[tuple[Accepted, dict[str, Any]]] = []  # proposals for which the disk had no room
        self.aside: deque[Action] = deque()  # what it has to do when nothing hangs any more
        self._hangs_until = -math.inf

    def put(self, action: Action) -> None:
        """Do what the machine asks for, or after all that waits."""
        if not (self._hangs or self.aside):
            self._do(action)
            return
        if isinstance(action, SaveProposal) and not self.aside and self._world.random.random() < 0.5:
            self._write_proposal(action.accepted, self._replay.contents)  # it is written, and the answer does not come
        self.aside.append(action)

    def _do(self, action: Action) -> None:
        machine = self._process.machine
        match action:
            case Average():
                self._process.exchange.average(machine, action, self._world.now)
            case SaveProposal(accepted):
                self._save_proposal(accepted, self._replay.contents)
            case SaveWaited(instance, seconds):
                assert self._process.journal is not None
                self._process.journal.disk.waited = instance, seconds
            case Forget(digests):
                for digest in digests:
                    if not machine.fetching.holds([digest]):
                        self._replay.contents.pop(digest, None)
            case Rejoin(log):
                self._process.rejoin(log)
            case Credit(entries, gaps):
                self._write(*(Written(entry, is_applied=False, gaps=gaps, is_proven=False) for entry in entries))
            case _:
                self._change_state(action)

    # -- the state

    def _change_state(self, action: Action) -> None:
        match action:
            case Apply(entry):
                self._apply(entry)
            case Load():
                self._load(action)
            case Compare(other, own, before):
                is_near = self._replay.is_near(other, own, before)
                self._process.machine.adopting.compared(other, is_near=is_near)
            case Adopt():
                self._adopt(action)

    def _apply(self, entry: Entry) -> None:
        process, journal, header = self._process, self._process.journal, entry.header
        self._replay.apply(header)
        process.exchange.forget_pieces(entry.certificate.ballot)
        self._oracle.applied(process, entry)
        if header.kind is HeaderKind.ROLLBACK:
            assert header.snapshot is not None
            if journal is not None:
                journal.name_rollback(header.snapshot, process.machine.log.snapshots)
        elif header.step % self._world.settings.snapshot_every == 0:
            process.machine.snapshot_made(header.step, self._replay.make_snapshot(), (), self._world.now)
            self._name_snapshots()
        if journal is not None:
            self._write(Written(entry, is_applied=True))
            if not journal.is_behind:
                self._oracle.check_ledger(process, header)
        process.machine.reached(header.step, self._world.now)

    def _load(self, load: Load) -> None:
        process, journal = self._process, self._process.journal
        *before, entry = load.entries
        name = SnapshotName(entry.header.step, load.snapshot)
        self._replay.restore(name)
        self._world.note(f"loads {process.session} {name.step}")
        self._oracle.loaded(process, entry)
        if journal is not None:
            journal.name_snapshots([name], load.entries[0].header.step)
            records = [Written(one, is_applied=False) for one in before]
            self._write(*records, Written(entry, is_applied=True, gaps=load.gaps))
        process.machine.reached(name.step, self._world.now)

    def _adopt(self, adopt: Adopt) -> None:
        before = self._replay.state
        self._replay.restore(adopt.snapshot, adopt.following)
        assert before is not None and self._replay.state is not None and self._replay.state.exact == before.exact
        self._oracle.adopted += 1
        self._name_snapshots()
        if self._process.journal is not None:
            self._write()

    def _name_snapshots(self) -> None:
        log = self._process.machine.log
        assert log.chain is not None
        if self._process.journal is not None:
            self._process.journal.name_snapshots(log.snapshots, log.chain.oldest.step)

    # -- a disk that may be full

    def _write(self, *records: Written) -> None:
        assert self._process.journal is not None
        self._process.journal.write(records, self._replay.contents)

    def _write_proposal(self, accepted: Accepted, contents: dict[str, Any]) -> None:
        assert self._process.journal is not None
        self._process.journal.write_proposal(accepted, contents)

    def _save_proposal(self, accepted: Accepted, contents: dict[str, Any]) -> None:
        process = self._process
        assert process.journal is not None
        if process.journal.disk.is_full:
            self._unsaved.append((accepted, dict(contents)))  # a store deletes nothing until all is written
            return
        self._write_proposal(accepted, contents)

        def saved() -> None:
            if process.is_alive:
                process.machine.proposal_saved(accepted.ballot, self._world.now)
                process.carry_out()

        self._world.after(FSYNC, saved)

    def disk_has_room(self) -> None:
        """The disk takes writes again."""
        process = self._process
        assert process.journal is not None
        if self._hangs or self.aside:
            self._world.after(AGAIN, self.disk_has_room)
            return
        process.journal.disk.is_full = False
        if process.is_alive and process.machine.log.chain is not None:
            self._write()
            for accepted, contents in self._unsaved:
                self._save_proposal(accepted, contents)
        self._unsaved = []

    # -- what hangs

    @property
    def _hangs(self) -> bool:
        return self._world.now < self._hangs_until

    def hang(self, seconds: float) -> None:
        """Nothing that it is asked for from now on returns before a time: no save, no step, no mean."""
        self._hangs_until = max(self._hangs_until, self._world.now + seconds)
        self._world.note(f"hangs {self._process.session} {seconds}")
        self._world.after(seconds, self._go_on)

    def go_on_now(self) -> None:
        """It hangs no longer."""
        self._hangs_until = self._world.now
        self._go_on()

    def _go_on(self) -> None:
        """Do all that has waited, in its order."""
        if self._hangs:
            return
        if self._process.is_frozen:
            self._world.after(AGAIN, self._go_on)
            return
        while self.aside and self._process.is_alive:
            self._do(self.aside.popleft())
        self._process.carry_out()
