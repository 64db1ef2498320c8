"""The shell around the protocol's machine: it hands in what happens, and carries out what the machine asks for.

A trainer adds gradients from its own thread; everything else happens in the event loop of the peer, except averaging,
steps and disk writes, which run in worker threads.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from torch import Tensor

from averaging.log.disk import Disk
from averaging.log.header import Gap
from averaging.log.snapshot import Manifest
from averaging.log.state import State
from averaging.protocol.actions import Audit, Average, Observe, Send
from averaging.protocol.buffers import is_fresh
from averaging.protocol.messages import Bandwidth, Chunk, Contact, Message, Piece, ShownAccount, ShownPiece
from averaging.protocol.peer import LogPeer
from averaging.shell.audit import Comparison, Verdict
from averaging.shell.exchange import Exchange
from averaging.shell.locked_machine import LockedMachine, Machine
from averaging.shell.replay import Replay
from averaging.shell.stepping import Applied, Stepping
from swarm.tasks import Tasks

logger = logging.getLogger(__name__)

TICK = 0.25  # seconds


class Network(Protocol):
    """What carries messages, and knows who this peer is."""

    def send(self, session: str, to: str, message: Message, payload: Callable[[], bytes | None] | None = None) -> None:
        """Send as a session of this peer, or lose it if that session is not the present one.

        What makes the payload is called when the message's turn has come; None: not any more.
        """

    def renew(self, shell: "Shell") -> Contact:
        """Begin another session of this peer, since the chain of the present one has lost; returns its contact."""


@dataclass(frozen=True)
class Progress:
    """Towards the next global step, as a peer knows it."""

    gathered: int  # samples of all peers
    own: int  # samples of this one
    peers: int  # that are listed, this one included
    in_round: bool  # the step is being averaged
    is_behind: bool  # others have a newer state, or this peer has none yet
    rests: bool = False  # it is to compute no gradients
    share: float = 0.0  # of the averaging that it does
    late: int = 0  # of the last steps with something of it, those that were taken without all of that
    is_applying: bool = False  # updates that it knows are still to be applied to the state


class Shell:
    """One peer of a run, from now on. Every method but those for the trainer's thread belongs to the event loop.

    Args:
        aside: does one thing at a time, in a thread.
        applied: is told of each header after its step was taken, in that thread.
        audited: is told what a coordinator finds out about members.
    """

    def __init__(
        self,
        locked: LockedMachine,
        replay: Replay,
        disk: Disk | None,
        network: Network,
        aside: Executor,
        applied: Applied = lambda *_: None,
        audited: Callable[[Verdict | Comparison], None] = lambda found: None,
    ):
        self._locked, self.settings, self.replay = locked, locked.settings, replay
        self._network, self._loop = network, asyncio.get_running_loop()
        self._audited, self.tasks = audited, Tasks(self.fail)
        self._exchange = Exchange(locked, replay, aside)
        renew = partial(network.renew, self)
        self.stepping = Stepping(
            locked, self._exchange, replay, disk, aside, renew, self._carry_out, self.tasks, applied
        )
        self.bandwidth: Bandwidth | None = None  # of this peer's line, once it is measured
        self._batch = -1, -1  # step and loads of the state that it is computed from
        self.failure: asyncio.Future[None] = self._loop.create_future()  # gets what ends this peer
        self.tasks.begin(self._tick())
        self.tasks.begin(self.stepping.run())

    @property
    def machine(self) -> LogPeer:
        """Of the present session, in a run that is a log."""
        assert isinstance(self._machine, LogPeer)
        return self._machine

    @property
    def _machine(self) -> Machine:
        return self._locked.machine

    async def stop(self) -> None:
        """Act no more."""
        await self.tasks.cancel()

    # -- what happens

    def received(self, session: str, sender: str, message: Message, payload: bytes | None) -> None:
        """A message to a session of this peer has come; the transport has checked what a chunk is."""
        is_mine = session == self._machine.me.session
        if is_mine and self._exchange.takes(sender, message, payload or b"", self._loop.time()):
            self._tell(lambda machine, now: machine.receive(sender, message, now))

    def contacts(self, contacts: Iterable[Contact], on_probation: frozenset[str] = frozenset()) -> None:
        """The peers that are listed now, and the users who are on probation."""

        def listed(machine: Machine, now: float) -> None:
            machine.session.on_probation = on_probation
            machine.contacts(contacts, now)

        self._tell(listed)

    def moving(self, sessions: Iterable[str]) -> None:
        """A part of a message has come from these: thin lines need seconds for a chunk."""
        with self._locked.lock:
            for session in sessions:
                self._machine.moving(session, self._loop.time())

    def measured(self, bandwidth: Bandwidth) -> None:
        """What the line of this peer carries; to be said now and then, since a new session does not know it."""
        self.bandwidth = bandwidth
        with self._locked.lock:
            self._machine.session.bandwidth = bandwidth

    def connected(self, sessions: Iterable[str]) -> None:
        """Whom this peer, which accepts no connections, is connected to; to be said now and then."""
        with self._locked.lock:
            self._machine.session.connected = tuple(sorted(sessions))

    def lost(self, session: str) -> None:
        """The connection to a peer has broken."""
        self._tell(lambda machine, now: machine.lost(session, now))

    def roll_back(self, manifest: Manifest) -> None:
        """The run's authority wants the state of a snapshot back, which this coordinator holds."""
        self._tell(lambda machine, now: self.machine.roll_back(manifest.digest, manifest.chunks, now))

    def lacks(self, gaps: Sequence[Gap]) -> None:
        """The disk of this coordinator has lost headers, which others may have."""
        self._tell(lambda machine, now: self.machine.backfilling.lacks(gaps))

    def leave(self) -> None:
        """Say goodbye."""
        self._tell(lambda machine, now: machine.leave())

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            self._tell(lambda machine, now: machine.tick(now))

    def _tell(self, event: Callable[[Machine, float], None]) -> None:
        with self._locked.lock:
            event(self._machine, self._loop.time())
        self._carry_out()

    # -- what happens in the trainer's thread

    def may_compute(self, *, overlap: bool) -> bool:
        """Whether a batch that begins now will count, and is needed.

        Without overlap it is to count in the next step, as in one process; batches of up to `Timeouts.batch` seconds
        do.
        """
        with self._locked.lock:
            machine, loaded, state = self._machine, self.replay.loaded, self.replay.state
            if state is None or machine.head is None or machine.is_behind or loaded != self._locked.loads:
                return False
            if machine.resting.rests or not machine.buffers.has_use(self.settings.target_samples, overlap=overlap):
                return False
            if overlap:
                return is_fresh(state.step, machine.head.step)
            return state.step == machine.head.step and not machine.in_round(self._loop.time())

    def await_state(self, seconds: float) -> None:
        """Wait until there is a newer state than at the last call, or for so many seconds."""
        self.stepping.stepped.wait(seconds)
        self.stepping.stepped.clear()

    def progress(self) -> Progress:
        """Towards the next global step."""
        with self._locked.lock:
            machine, now = self._machine, self._loop.time()
            head, state = machine.head, self.replay.state
            lags = head is not None and (state is None or state.step < head.step)
            return Progress(
                gathered=machine.progress.gathered(now),
                own=machine.buffers.samples,
                peers=1 + len(machine.others),
                in_round=machine.in_round(now),
                is_behind=machine.is_behind,
                rests=machine.resting.rests,
                share=machine.resting.share,
                late=machine.buffers.late,
                is_applying=self._locked.is_log and lags,
            )

    def computes_at(self, speed: float) -> None:
        """How many samples a second this peer computes, or would: conveners plan with it."""
        with self._locked.lock:
            self._machine.session.speed = speed

    def begin_batch(self) -> State:
        """The state that the next batch is to be computed from; there must be one."""
        with self._locked.lock:
            self._machine.computes()
            loaded, state = self.replay.loaded, self.replay.state  # in this order: a load may come between them
            assert state is not None
            self._batch = state.step, loaded
            return state

    def contribute(self, gradient: Tensor | None, tokens: int, *, samples: int = 1, loss: float = math.nan) -> bool:
        """Gradient and loss of the batch that was begun, summed over its masked tokens; the gradient is finite.

        Without a gradient the batch is over, and nothing else. Returns whether it counts: it does if at most one step
        was decided meanwhile, and no load and no rollback, and the peer has not gathered more than others believe.

        Raises:
            ValueError: the gradient has another size.
        """
        with self._locked.lock:
            step, loaded = self._batch
            machine, counts = self._machine, False
            is_timely = machine.head is not None and is_fresh(step, machine.head.step)
            is_useful = is_timely and loaded == self._locked.loads and not machine.is_behind
            try:
                if gradient is not None and is_useful and machine.buffers.has_room(samples):
                    self._locked.gradients.add(machine.buffers.open_number, gradient, tokens)
                    counts = True
            finally:
                machine.computed(tokens if counts else 0, self._loop.time(), samples=samples, loss=loss)
        self._loop.call_soon_threadsafe(self._carry_out)
        return counts

    # -- what the machine asks for

    def _carry_out(self) -> None:
        with self._locked.lock:
            machine = self._machine
            actions = machine.take_actions()
        send = partial(self._network.send, machine.me.session)
        for action in actions:
            match action:
                case Send(to, Piece() as piece):
                    plan = machine.reducing.plan
                    if plan is not None and plan.ballot == piece.ballot:  # or its round is over in the meantime
                        send(to, piece, partial(self._exchange.sent_piece, plan, piece.chunk))
                case Send(to, Chunk(digest) as chunk):
                    send(to, chunk, partial(self._exchange.chunk, to, digest))
                case Send(to, (ShownPiece() | ShownAccount()) as asked):
                    send(to, asked, partial(self._exchange.proofs.shown, asked))
                case Send(to, message):
                    send(to, message)
                case Average():
                    self.tasks.begin(self._exchange.average(machine, action, self._carry_out))
                case Audit():
                    self.tasks.begin(self._exchange.audit(action, self._audited))
                case Observe():
                    self.tasks.begin(self._exchange.observe(action, self._audited))
                case _:
                    self.stepping.put(machine, action)

    # -- its end

    def fail(self, error: BaseException) -> None:
        """This peer can go on no longer."""
        if not self.failure.done():
            logger.error("this peer takes part no longer: it has failed", exc_info=error)
            self._machine.session.close()
            self.failure.set_exception(error)
