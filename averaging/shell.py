"""The shell around the protocol's machine: it hands in what happens, and carries out what the machine asks for.

One lock guards the machine and the gradients: a trainer adds gradients from its own thread, and everything else happens
in the event loop of the peer. What takes long (encoding, averaging, steps, disks) is done aside, steps one by one.
"""

import asyncio
import hashlib
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from averaging.log.header import Ballot, Entry
from averaging.log.snapshot import Manifest
from averaging.protocol.messages import (
    Action,
    Apply,
    Average,
    Chunk,
    Contact,
    Forget,
    Load,
    Log,
    Message,
    Piece,
    Rejoin,
    SaveProposal,
    Send,
)
from averaging.protocol.peer import Peer
from averaging.protocol.settings import Settings
from averaging.reduce.reducer import average
from averaging.reduce.sender import GradientBuffers
from averaging.replay import Contents, Replay

logger = logging.getLogger(__name__)

TICK = 0.25  # seconds


class Network(Protocol):
    """What carries messages."""

    def send(self, to: str, message: Message, payload: bytes | None = None) -> None:
        """Send, or lose it."""


class Journal(Protocol):
    """What a coordinator writes down, so that it can go on after a crash."""

    def save_proposal(self, accepted: Any) -> None:
        """Keep a proposal and its chunks; back only when the disk has them."""

    def append(self, entry: Entry) -> None:
        """Keep a committed entry."""


@dataclass(frozen=True)
class _PieceName:
    ballot: Ballot
    chunk: int
    attempt: int


class Shell:
    """One peer of a run. Every method but `contribute` and `state` belongs to the event loop.

    Args:
        renew: begins a new session of this peer, and returns its contact; the chain of the old one has lost.
        applied: is told of each header after its step was taken, in a thread aside.
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
        journal: Journal | None = None,
        renew: Callable[[], Contact],
        applied: Callable[[Entry], None] = lambda entry: None,
    ):
        self.settings, self.replay, self.gradients, self.store = settings, replay, gradients, store
        self._network, self._aside, self._journal = network, aside, journal
        self._renew, self._applied = renew, applied
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._pieces: dict[str, dict[_PieceName, bytes]] = {}  # by sender
        self._steps: asyncio.Queue[Action] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self.failure: asyncio.Future[None] = self._loop.create_future()  # gets what ends this peer
        self.machine = Peer(me, settings, self._loop.time())

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
            if not self._expects(sender, message.digest):
                return
            assert payload is not None
            self.store.put(message.digest, payload)
            self._read_manifest(message.digest, payload)
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

    def _read_manifest(self, digest: str, content: bytes) -> None:
        if self.machine.fetching.is_snapshot(digest):
            try:
                chunks = Manifest.decode(content).chunks
            except ValueError as error:
                logger.warning("a snapshot cannot be used: %s", error)
                return
            self.machine.fetching.consists_of(digest, chunks, self._loop.time())

    def _keeps_piece(self, sender: str, piece: Piece, payload: bytes) -> bool:
        known = self._pieces.setdefault(sender, {})
        if len(known) >= 2 * self.settings.chunks:
            return False
        known[_PieceName(piece.ballot, piece.chunk, piece.attempt)] = payload
        return True

    def contacts(self, contacts: Iterable[Contact]) -> None:
        """The peers that are listed now."""
        with self._lock:
            self.machine.contacts(contacts, self._loop.time())
        self._carry_out()

    def contribute(self, gradient: Tensor, tokens: int) -> None:
        """From the trainer's thread: the mean gradient of so many masked tokens, computed from the newest state."""
        with self._lock:
            self.gradients.add(self.machine.buffers.open_number, gradient, tokens)
            self.machine.computed(tokens, None, self._loop.time())
        self._loop.call_soon_threadsafe(self._carry_out)

    def leave(self) -> None:
        """Say goodbye."""
        with self._lock:
            self.machine.leave(self._loop.time())
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
                    self._spawn(self._send_piece(to, piece))
                case Send(to, Chunk(digest) as chunk):
                    content = self.store.get(digest)
                    if content is not None:
                        self._network.send(to, chunk, content)
                case Send(to, message):
                    self._network.send(to, message)
                case Average():
                    self._spawn(self._average(action))
                case SaveProposal():
                    self._spawn(self._save(action))
                case _:
                    self._steps.put_nowait(action)  # in their order

    async def _send_piece(self, to: str, piece: Piece) -> None:
        plan = self.machine.reducing.plan
        if plan is None or plan.ballot != piece.ballot:
            return
        numbers = plan.buffers_of(self.machine.me.session)
        content = await self._do(lambda: self.gradients.piece(numbers, piece.chunk))
        self._network.send(to, piece, content)

    async def _average(self, action: Average) -> None:
        name = _PieceName(action.plan.ballot, action.chunk, action.attempt)
        own = action.plan.buffers_of(self.machine.me.session)

        def mean() -> tuple[str, bytes]:
            pieces = []
            for sender in action.senders:
                is_own = sender == self.machine.me.session
                pieces.append(self.gradients.piece(own, action.chunk) if is_own else self._pieces[sender][name])
            content = average(pieces)
            return hashlib.sha256(content).hexdigest(), content

        digest, content = await self._do(mean)
        self.store.put(digest, content)
        with self._lock:
            self.machine.averaged(action.plan.ballot, action.chunk, action.attempt, digest, self._loop.time())
        self._carry_out()

    async def _save(self, action: SaveProposal) -> None:
        assert self._journal is not None, "only a coordinator saves proposals"
        try:
            await self._do(lambda: self._journal.save_proposal(action.accepted))
        except OSError as error:
            logger.warning("the disk takes no proposal: %s", error)
            with self._lock:
                self.machine.saving_failed()
            return
        with self._lock:
            self.machine.proposal_saved(self._loop.time())
        self._carry_out()

    # -- steps, one after the other

    async def _take_steps(self) -> None:
        while True:
            action = await self._steps.get()
            manifest = None
            match action:
                case Apply(entry):
                    manifest = await self._do(lambda entry=entry: self._apply(entry))
                    self._drop_what_was_used(entry)
                case Load(entry, snapshot):
                    await self._do(lambda entry=entry, digest=snapshot: self.replay.load(digest, entry.header))
                    self._drop_what_was_used(entry)
                case Forget(digests):
                    self.store.forget([one for one in digests if one not in self.machine.fetching.held])
                case Rejoin(log):
                    self._rejoin(log)
            if manifest is not None:
                with self._lock:
                    self.machine.snapshot_made(manifest.step, manifest.digest, manifest.chunks, self._loop.time())
            self._carry_out()

    def _apply(self, entry: Entry) -> Manifest | None:
        manifest = self.replay.apply(entry)
        if self._journal is not None:
            self._journal.append(entry)
        self._applied(entry)
        return manifest

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
            self.gradients.clear()
            self.machine = Peer(self._renew(), self.settings, self._loop.time(), held)
            self.machine.rejoin(log, self._loop.time())

    # -- tasks

    def _do(self, work: Callable[[], Any]) -> Awaitable[Any]:
        return self._loop.run_in_executor(self._aside, work)

    def _spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self.failure.done():
            self.failure.set_exception(error)
