"""The shell around the protocol's machine: it hands in what happens, and carries out what the machine asks for.

One lock guards the machine and the gradients: a trainer adds gradients from its own thread, and everything else happens
in the event loop of the peer. What takes long (encoding, averaging, steps, disks) is done aside, steps one by one.
"""

import asyncio
import contextlib
import hashlib
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from torch import Tensor

from averaging.log.chain import Chain
from averaging.log.disk import Disk
from averaging.log.header import Ballot, Entry, SnapshotName
from averaging.log.snapshot import Manifest
from averaging.log.state import State
from averaging.protocol.actions import (
    Action,
    Apply,
    Average,
    Credit,
    Forget,
    Load,
    Rejoin,
    SaveProposal,
    Send,
)
from averaging.protocol.credentials import Credentials, Open
from averaging.protocol.messages import Accepted, Chunk, Contact, Log, Message, Piece, Plan
from averaging.protocol.peer import Peer
from averaging.protocol.settings import Settings
from averaging.reduce.pieces import piece_bytes
from averaging.reduce.reducer import EncodedMean, Reducer
from averaging.reduce.sender import GradientBuffers
from averaging.replay import Contents, Replay
from swarm.errors import StorageError

logger = logging.getLogger(__name__)

TICK = 0.25  # seconds
DISK_AGAIN = 5.0  # seconds between two attempts to write to a full disk
STALENESS = 1  # steps that may be taken between the state of a gradient and the one that it is applied to


class Network(Protocol):
    """What carries messages."""

    def send(self, to: str, message: Message, payload: Callable[[], bytes | None] | None = None) -> bool:
        """Send, or lose it. What makes the payload is called when the message's turn has come; None: not any more."""


@dataclass(frozen=True)
class _PieceName:
    ballot: Ballot
    chunk: int
    attempt: int


class Shell:
    """One peer of a run. Every method but `begin_batch` and `contribute` belongs to the event loop.

    Args:
        renew: begins a new session of this peer, and returns its contact; the chain of the old one has lost.
        applied: is told of each header after its step was taken, in a thread aside.
        missed: is told of older headers whose states this peer never had, in the same thread.
    """

    def __init__(
        self,
        me: Contact,
        settings: Settings,
        replay: Replay,
        gradients: GradientBuffers,
        store: Contents,
        network: Network,
        aside: Executor,
        *,
        disk: Disk | None = None,
        renew: Callable[[], Contact],
        credentials: Credentials = Open(),  # noqa: B008  (it has no state)
        applied: Callable[[Entry], None] = lambda entry: None,
        missed: Callable[[Sequence[Entry]], None] = lambda entries: None,
    ):
        self.settings, self.replay, self.gradients, self.store = settings, replay, gradients, store
        self._reducer = Reducer(gradients.grid, gradients.kind)
        self._network, self._aside, self._disk = network, aside, disk
        self._renew, self._applied, self._missed, self._credentials = renew, applied, missed, credentials
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._pieces: dict[str, dict[_PieceName, bytes]] = {}  # by sender
        self._steps: asyncio.Queue[Action] = asyncio.Queue()
        self._unsaved: list[Entry] = []  # that the disk did not take
        self._batch = -1, -1  # step and loads of the state that it is computed from
        self._tasks: set[asyncio.Task[None]] = set()
        self.failure: asyncio.Future[None] = self._loop.create_future()  # gets what ends this peer
        self.machine = Peer(me, settings, self._loop.time(), credentials=credentials)

    def begin(self, chain: Chain, snapshots: Sequence[SnapshotName], accepted: Accepted | None = None) -> None:
        """Go on from what this peer has: the beginning of a run, or its own disk. The state is in the replay."""
        fetching, now = self.machine.fetching, self._loop.time()
        for name in snapshots:
            fetching.made(name.digest, self.replay.manifest(name.digest).chunks, now)
        for header in (*(entry.header for entry in chain.since(0)), *([accepted.header] if accepted else [])):
            for digest in header.chunks:
                if self.store.has(digest):
                    fetching.arrived(digest, now)
        self.machine.start(chain, snapshots, accepted)

    def roll_back(self, snapshot: str) -> None:
        """The run's authority wants the state of a snapshot back, which this coordinator holds."""
        with self._lock:
            self.machine.roll_back(snapshot)

    def lost(self, session: str) -> None:
        """The connection to a peer has broken."""
        with self._lock:
            self.machine.lost(session, self._loop.time())
        self._carry_out()

    def run(self) -> None:
        """Begin to act."""
        self._spawn(self._tick())
        self._spawn(self._take_steps())

    async def stop(self) -> None:
        """Act no more."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- what happens

    def received(self, sender: str, message: Message, payload: bytes | None) -> None:
        """A message has come; the transport has checked that a chunk has the digest that it is sent under."""
        if isinstance(message, Chunk):
            if not self._expects(sender, message.digest) or not self._keeps_chunk(message.digest, payload or b""):
                return
        elif isinstance(message, Piece) and not self._keeps_piece(sender, message, payload or b""):
            return
        with self._lock:
            self.machine.receive(sender, message, self._loop.time())
        self._carry_out()

    def _expects(self, sender: str, digest: str) -> bool:
        """Whether a chunk was asked for, or comes from a reducer of the open round."""
        plan = self.machine.reducing.plan
        return digest in self.machine.fetching.wanted or (
            plan is not None and any(part.reducer == sender for part in plan.parts)
        )

    def _keeps_chunk(self, digest: str, content: bytes) -> bool:
        """Whether there is room for it and, if it is a manifest, whether its snapshot can be loaded."""
        try:
            if self.machine.fetching.is_snapshot(digest):
                chunks = self.replay.checked(content).chunks
                self.store.put(digest, content)
                with self._lock:
                    self.machine.fetching.consists_of(digest, chunks, self._loop.time())
            else:
                self.store.put(digest, content)
        except (ValueError, StorageError) as error:
            logger.warning("chunk %s cannot be used: %s", digest, error)
            return False
        return True

    def _keeps_piece(self, sender: str, piece: Piece, payload: bytes) -> bool:
        """Of each sender those of the newest ballot, and as many of another one as there is room for."""
        grid, kind = self.gradients.grid, self.gradients.kind
        if not 0 <= piece.chunk < grid.count or len(payload) != piece_bytes(grid.size(piece.chunk), kind):
            return False
        known = self._pieces.setdefault(sender, {})
        if len(known) >= 2 * grid.count:
            newest = max(name.ballot for name in known)
            if piece.ballot < newest:
                return False
            known = self._pieces[sender] = {name: one for name, one in known.items() if name.ballot >= piece.ballot}
        if len(known) >= 2 * grid.count:
            return False
        known[_PieceName(piece.ballot, piece.chunk, piece.attempt)] = payload
        return True

    def contacts(self, contacts: Iterable[Contact]) -> None:
        """The peers that are listed now."""
        with self._lock:
            self.machine.contacts(contacts, self._loop.time())
        self._carry_out()

    def may_compute(self, *, overlap: bool) -> bool:
        """From the trainer's thread: whether a batch that begins now will count, and is needed.

        Without overlap it is to count in the next step, as in one process; batches of up to `Timing.batch` seconds do.
        """
        with self._lock:
            machine, state = self.machine, self.replay.state
            if state is None or machine.head is None or machine.is_behind:
                return False
            if machine.buffers.weight >= self.settings.target_weight:
                return False
            if overlap:
                return machine.head.step <= state.step + STALENESS
            return state.step == machine.head.step and not machine.voting.in_round(self._loop.time())

    def begin_batch(self) -> State:
        """From the trainer's thread: the state that the next batch is to be computed from; there must be one."""
        with self._lock:
            self.machine.computes()
            state = self.replay.state
            assert state is not None
            self._batch = state.step, self.replay.loaded
            return state

    def contribute(self, gradient: Tensor | None, tokens: int, *, samples: int = 0, loss: float = math.nan) -> bool:
        """From the trainer's thread: gradient and loss of the batch that was begun, summed over its masked tokens.

        Without a gradient the batch is over, and nothing else. Returns whether it counts: it does if at most one step
        was taken meanwhile.

        Raises:
            ValueError: the gradient is not finite, or has another size.
        """
        with self._lock:
            step, loaded = self._batch
            head = self.machine.head
            is_fresh = head is not None and head.step <= step + STALENESS and loaded == self.replay.loaded
            counts = gradient is not None and is_fresh and not self.machine.is_behind
            try:
                if gradient is not None and counts:
                    self.gradients.add(self.machine.buffers.open_number, gradient, tokens)
            except ValueError:
                counts = False
                raise
            finally:
                now = self._loop.time()
                self.machine.computed(tokens if counts else 0, None, now, samples=samples, loss=loss)
        self._loop.call_soon_threadsafe(self._carry_out)
        return counts

    def leave(self) -> None:
        """Say goodbye."""
        with self._lock:
            self.machine.leave()
        self._carry_out()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            with self._lock:
                self.machine.tick(self._loop.time())
            self._carry_out()

    # -- what the machine asks for

    def _carry_out(self) -> None:
        with self._lock:
            actions = self.machine.take_actions()
        for action in actions:
            match action:
                case Send(to, Piece() as piece):
                    plan = self.machine.reducing.plan
                    if plan is not None and plan.ballot == piece.ballot:  # or its round is over in the meantime
                        self._network.send(to, piece, partial(self._own_piece, plan, piece.chunk))
                case Send(to, Chunk(digest) as chunk):
                    self._network.send(to, chunk, partial(self.store.get, digest))
                case Send(to, message):
                    self._network.send(to, message)
                case Average():
                    self._spawn(self._average(action))
                case SaveProposal(accepted):
                    self._spawn(self._save(accepted))
                case _:
                    self._steps.put_nowait(action)  # in their order

    def _own_piece(self, plan: Plan, chunk: int) -> bytes | None:
        """What this peer brings to a chunk; None if that round is over."""
        with self._lock:
            try:
                return self.gradients.piece(plan.buffers_of(self.machine.me.session), chunk)
            except (LookupError, ValueError) as error:
                logger.debug("no piece of chunk %d: %s", chunk, error)
                return None

    async def _average(self, action: Average) -> None:
        plan, chunk, attempt = action.plan, action.chunk, action.attempt
        name = _PieceName(plan.ballot, chunk, attempt)
        pieces = []
        for sender in action.senders:
            is_own = sender == self.machine.me.session
            piece = self._own_piece(plan, chunk) if is_own else self._pieces.get(sender, {}).get(name)
            if piece is not None:
                pieces.append((sender, piece))
        excluded = set(action.senders).difference(sender for sender, _ in pieces)
        try:
            mean: EncodedMean = await self._do(lambda: self._reducer.average(pieces, chunk, plan.weights_by_session()))
        except ValueError as error:
            logger.debug("chunk %d of %s cannot be averaged: %s", chunk, plan.ballot, error)
            with self._lock:
                self.machine.cannot_average(plan.ballot, chunk, attempt)
            return
        digest = hashlib.sha256(mean.encoded).hexdigest()
        self.store.put(digest, mean.encoded)
        excluded.update(mean.excluded)
        with self._lock:
            self.machine.averaged(plan.ballot, chunk, attempt, digest, self._loop.time(), sorted(excluded))
        self._carry_out()

    async def _save(self, accepted: Accepted) -> None:
        assert self._disk is not None, "only a coordinator saves proposals"
        try:
            await self._do(partial(self._disk.save_proposal, accepted.ballot, accepted.header))
        except StorageError as error:
            logger.warning("the coordinator leads no round until its disk has room: %s", error)
            with self._lock:
                self.machine.saving_failed()
            self._spawn(self._try_disk_again())
            return
        with self._lock:
            self.machine.proposal_saved(self._loop.time())
        self._carry_out()

    async def _try_disk_again(self) -> None:
        while self._disk is not None:
            await asyncio.sleep(DISK_AGAIN)
            with contextlib.suppress(StorageError):
                await self._do(self._write_down)
                break
        with self._lock:
            self.machine.saving_works()
        self._carry_out()

    def _write_down(self, *entries: Entry) -> None:
        """Append to the log on the disk, with what it did not take before.

        Raises:
            StorageError: it does not take it now.
        """
        if self._disk is not None:
            self._unsaved.extend(entries)
            self._disk.append(self._unsaved)
            self._unsaved.clear()

    # -- steps, one after the other

    async def _take_steps(self) -> None:
        while True:
            action = await self._steps.get()
            match action:
                case Apply(entry):
                    manifest = await self._do(partial(self._apply, entry))
                    self._drop_what_was_used(entry)
                    if manifest is not None:
                        await self._snapshot_made(manifest)
                case Load(entry, snapshot):
                    await self._do(partial(self._load, entry, snapshot))
                    self._drop_what_was_used(entry)
                case Forget(digests):
                    self.store.forget([one for one in digests if one not in self.machine.fetching.held])
                case Credit(entries):
                    await self._do(partial(self._missed, entries))
                case Rejoin(log):
                    self._rejoin(log)
            self._carry_out()

    def _apply(self, entry: Entry) -> Manifest | None:
        manifest = self.replay.apply(entry)
        try:
            self._write_down(entry)
        except StorageError as error:
            logger.warning("step %d is not on the disk yet: %s", entry.header.step, error)
        self._applied(entry)
        return manifest

    def _load(self, entry: Entry, snapshot: str) -> None:
        self.replay.load(snapshot, entry.header)
        if self._disk is not None:
            self._disk.take_over(entry, SnapshotName(entry.header.step, snapshot))
            self._unsaved.clear()

    async def _snapshot_made(self, manifest: Manifest) -> None:
        with self._lock:
            self.machine.snapshot_made(manifest.step, manifest.digest, manifest.chunks, self._loop.time())
            names = list(self.machine.log.snapshots)
        if self._disk is not None:
            with contextlib.suppress(StorageError):  # the log goes on from an older one
                await self._do(partial(self._disk.save_snapshots, names))

    def _drop_what_was_used(self, entry: Entry) -> None:
        decided = entry.certificate.ballot
        with self._lock:
            self.gradients.keep(self.machine.buffers.numbers)
        for sender, known in list(self._pieces.items()):
            self._pieces[sender] = {name: piece for name, piece in known.items() if name.ballot > decided}
        self._pieces = {sender: known for sender, known in self._pieces.items() if known}

    def _rejoin(self, log: Log) -> None:
        held = self.machine.fetching.held
        with self._lock:
            self.gradients = GradientBuffers(self.gradients.grid, self.gradients.kind)
            chain = self.machine.log.chain
            others = [*self.machine.backfilling.others, *(chain.since(0) if chain is not None else ())]
            now, me = self._loop.time(), self._renew()
            self.machine = Peer(me, self.settings, now, held, credentials=self._credentials)
            if log.snapshot is not None:
                chunks = self.replay.manifest(log.snapshot.digest).chunks
                self.machine.fetching.made(log.snapshot.digest, chunks, self._loop.time())
            self.machine.rejoin(log, others, self._loop.time())

    # -- tasks

    def _do(self, work: Callable[[], Any]) -> Awaitable[Any]:
        return self._loop.run_in_executor(self._aside, work)

    def _spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failure.done():
            logger.error("this peer takes part no longer: it has failed", exc_info=error)
            self.machine.fall_silent()
            self.failure.set_exception(error)
