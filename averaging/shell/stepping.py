"""What changes the state and the disk: done aside, one after the other, in the order in which the machine asks for it.

So a proposal is on the disk after the entries before it, and what a disk still needs is not deleted from it.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeAlias

from averaging.log.disk import Disk, Journal
from averaging.log.header import Entry, Gap, SnapshotName
from averaging.log.packing import pack
from averaging.log.snapshot import Manifest
from averaging.log.state import State
from averaging.moshpit.peer import GroupPeer
from averaging.protocol.actions import (
    Action,
    Adopt,
    Apply,
    Compare,
    Credit,
    EncodeParameters,
    Forget,
    Load,
    Rejoin,
    SaveProposal,
    SaveWaited,
    TakeParameters,
    WriteSnapshot,
)
from averaging.protocol.messages import Accepted, Contact, Log
from averaging.protocol.peer import LogPeer
from averaging.shell.exchange import Exchange
from averaging.shell.locked_machine import LockedMachine, Machine
from averaging.shell.replay import Replay
from swarm.errors import StorageError
from swarm.tasks import Tasks

logger = logging.getLogger(__name__)

DISK_AGAIN = 5.0  # seconds between two attempts to write to a full disk

# a header, seconds from this peer's call to its commit (None: it was not in that round), and the state after it, which
# nothing changes any more
Applied: TypeAlias = Callable[[Entry, float | None, State], None]


class Stepping:
    """Carries out what changes one peer's state or disk. Methods belong to the event loop, but for the last section.

    Args:
        aside: does one thing at a time.
        renew: begins a new session of this peer, and returns its contact.
        carry_out: takes the machine's next actions.
        applied: see `averaging.shell.shell.Shell`.
    """

    def __init__(
        self,
        locked: LockedMachine,
        exchange: Exchange,
        replay: Replay,
        disk: Disk | None,
        aside: Executor,
        renew: Callable[[], Contact],
        carry_out: Callable[[], None],
        tasks: Tasks,
        applied: Applied,
    ):
        self._locked, self._replay, self._journal = locked, replay, Journal(disk)
        self._exchange, self._aside, self._renew = exchange, aside, renew
        self._carry_out, self._tasks, self._applied = carry_out, tasks, applied
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Queue[tuple[Machine, Action]] = asyncio.Queue()
        self.stepped = threading.Event()  # there is a newer state
        self._forgotten: set[str] = set()  # digests that the disk may still need
        self._tries_again = False

    def put(self, machine: Machine, action: Action) -> None:
        """Do what a machine asks for, after all that was asked for before."""
        self._waiting.put_nowait((machine, action))

    async def run(self) -> None:
        """Do it all."""
        while True:
            machine, action = await self._waiting.get()
            if machine is self._locked.machine:
                await self._do(machine, action)
            elif isinstance(action, Apply):
                await self._do(machine, Credit((action.entry,)))  # of a session that is over: its chain has lost
            elif isinstance(action, Credit | Forget):
                await self._do(machine, action)
            self._carry_out()

    async def _do(self, machine: Machine, action: Action) -> None:
        match action:
            case Apply(entry):
                manifest = await self._in_thread(self._apply, action)
                self._reached(machine, entry)
                if manifest is not None:
                    await self._snapshot_made(machine, manifest)
            case Load():
                await self._take_over(machine, action)
            case Compare() | Adopt():
                assert isinstance(machine, LogPeer)
                await self._use_named_snapshot(machine, action)
            case SaveProposal(accepted):
                assert isinstance(machine, LogPeer)
                work = partial(self._save, machine, accepted)
                await self._in_thread(self._write, "the coordinator's proposal", work)
            case SaveWaited(instance, seconds):
                await self._in_thread(self._write, "its wait", lambda disk: disk.save_waited(instance, seconds))
            case Credit(entries, gaps):
                work = partial(self._credit, machine, entries, gaps)
                await self._in_thread(self._write, f"{len(entries)} older headers", work)
            case Forget(digests):
                self._forget(digests)
            case Rejoin(log):
                self._rejoin(log)
            case EncodeParameters() | TakeParameters() | WriteSnapshot():
                assert isinstance(machine, GroupPeer)
                await self._do_in_groups(machine, action)

    async def _take_over(self, machine: Machine, load: Load) -> None:
        try:
            await self._in_thread(self._load, load)
        except ValueError as error:
            self._locked.cannot_load(machine, load.snapshot, error, self._loop.time())
            if self._locked.is_log:  # the machine has gone on from there already
                self._carry_out()
                self._rejoin(None)
                await self._do(machine, Credit(load.entries, load.gaps))
        else:
            self._reached(machine, load.entries[-1])

    async def _use_named_snapshot(self, machine: LogPeer, action: Compare | Adopt) -> None:
        """Where this processor computes other bits than those of the others."""
        match action:
            case Compare(other, own, before):
                is_near = await self._in_thread(self._replay.is_near, other.digest, own.digest, before.digest)
                with self._locked.lock:
                    machine.adopting.compared(other, is_near=is_near)
            case Adopt(snapshot, following):
                try:
                    await self._in_thread(self._replay.adopt, snapshot, following)
                except ValueError as error:
                    what = "the run's snapshot of step %d cannot be used, this peer goes on from its own state: %s"
                    logger.warning(what, snapshot.step, error)
                    return
                what = "this processor computes other bits: the run's snapshot of step %d was taken over"
                logger.warning(what, snapshot.step)
                await self._write_snapshots(machine)

    async def _do_in_groups(
        self, machine: GroupPeer, action: EncodeParameters | TakeParameters | WriteSnapshot
    ) -> None:
        match action:
            case EncodeParameters():
                chunks = await self._in_thread(self._replay.encode_parameters)
                with self._locked.lock:
                    machine.encoded(chunks, self._loop.time())
            case TakeParameters(chunks):
                await self._in_thread(self._replay.take_parameters, chunks)
            case WriteSnapshot():
                manifest = await self._in_thread(self._replay.write_snapshot)
                if manifest is not None:
                    await self._snapshot_made(machine, manifest)

    def _reached(self, machine: Machine, entry: Entry) -> None:
        """Gradients and pieces that the step has used are not needed any more."""
        self._exchange.forget_pieces(entry.certificate.ballot)
        with self._locked.lock:
            self._locked.gradients.keep(self._locked.machine.buffers.numbers)
            machine.reached(entry.header.step, self._loop.time())
        self.stepped.set()

    async def _snapshot_made(self, machine: Machine, manifest: Manifest) -> None:
        with self._locked.lock:
            machine.snapshot_made(manifest.step, manifest.digest, manifest.chunks, self._loop.time())
        if isinstance(machine, LogPeer):
            await self._write_snapshots(machine)

    async def _write_snapshots(self, machine: LogPeer) -> None:
        with self._locked.lock:
            assert machine.log.chain is not None
            names, since = list(machine.log.snapshots), machine.log.chain.first
        await self._in_thread(self._write, "its snapshots", lambda disk: disk.save_snapshots(names, since))

    def _forget(self, digests: Sequence[str]) -> None:
        """Delete chunks; not before the disk has what stands for them, or it would lead to no state after a crash."""
        self._forgotten.update(digests)
        if not self._journal.is_behind:
            held = self._locked.machine.fetching.held  # some have come again
            gone, self._forgotten = self._forgotten - held, set()
            try:
                self._replay.store.forget(gone)
            except StorageError as error:
                logger.warning("old chunks stay on the disk: %s", error)

    def _rejoin(self, log: Log | None) -> None:
        chunks = self._replay.manifest(log.snapshot.digest).chunks if log is not None and log.snapshot else ()
        with self._locked.lock:
            self._locked.begin_again(self._renew(), log, chunks, self._replay.loaded, self._loop.time())

    def _answer(self, event: Callable[[float], None]) -> None:
        """Tell the machine that what it has asked for is done, and the time."""
        with self._locked.lock:
            event(self._loop.time())
        self._carry_out()

    def _keep_trying(self) -> None:
        if not self._tries_again:
            self._tries_again = True
            self._tasks.begin(self._try_again())

    async def _try_again(self) -> None:
        while self._journal.is_behind:
            await asyncio.sleep(DISK_AGAIN)
            with contextlib.suppress(StorageError):
                await self._in_thread(self._journal.catch_up)
        self._tries_again = False

    # -- in the thread aside

    def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Awaitable[Any]:
        return self._loop.run_in_executor(self._aside, work, *arguments)

    def _apply(self, step: Apply) -> Manifest | None:
        manifest = self._replay.apply(step.entry)
        if self._locked.is_log:
            self._write(f"step {step.entry.header.step}", lambda disk: disk.append([step.entry]))
        assert self._replay.state is not None, "it was applied to one"
        self._applied(step.entry, step.seconds, self._replay.state)
        return manifest

    def _credit(self, machine: Machine, entries: Sequence[Entry], gaps: tuple[Gap, ...] | None, disk: Disk) -> None:
        disk.credit(entries, gaps)
        if isinstance(machine, GroupPeer):
            self._loop.call_soon_threadsafe(self._answer, lambda now: machine.credited(entries))

    def _save(self, machine: LogPeer, accepted: Accepted, disk: Disk) -> None:
        disk.save_proposal(accepted.ballot, accepted.header, pack(accepted.contacts))
        self._loop.call_soon_threadsafe(self._answer, partial(machine.proposal_saved, accepted.ballot))

    def _load(self, load: Load) -> None:
        header = load.entries[-1].header
        self._replay.load(load.snapshot, header)
        name = SnapshotName(header.step, load.snapshot)
        if self._locked.is_log:  # else the disk has headers for their credit alone
            self._write(f"the snapshot of step {name.step}", lambda disk: disk.take_over(load.entries, name, load.gaps))

    def _write(self, what: str, work: Callable[[Disk], None]) -> None:
        """To the disk, now or later."""
        try:
            self._journal.write(work)
        except StorageError as error:
            logger.warning("%s is not on the disk yet: %s", what, error)
            self._loop.call_soon_threadsafe(self._keep_trying)
