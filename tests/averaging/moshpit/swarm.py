"""A run in small groups in virtual time: real machines, vectors of one number a chunk, and a network that loses."""

import hashlib
import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from averaging.log.credit import contributions
from averaging.log.header import Entry, Header
from averaging.moshpit.group_keys import GroupSettings
from averaging.moshpit.group_step import CARRIED
from averaging.moshpit.peer import GroupPeer
from averaging.protocol.actions import (
    Action,
    Apply,
    Average,
    Credit,
    EncodeParameters,
    Forget,
    Load,
    Send,
    TakeParameters,
    WriteSnapshot,
)
from averaging.protocol.messages import Chunk, Contact, Message, Piece, Plan
from averaging.protocol.settings import Settings
from tests.simulation.signatures import Credentials
from tests.simulation.world import World

Vector = NDArray[np.float64]
CHUNKS = 3
TICK, BATCH = 0.25, 1.0  # seconds
BREAKS = 0.3  # seconds until others see that a connection has broken


@dataclass
class Peer:
    """One process: a machine, its state, and what it keeps."""

    swarm: "Swarm"
    contact: Contact
    tokens: int  # in a batch; 0: it computes nothing
    state: Vector | None = None
    step: int = -1
    is_alive: bool = True
    died_at: float = math.inf
    deaf_until: float = 0.0
    lag: float = 0.0
    contents: dict[str, Any] = field(default_factory=dict)
    pieces: dict[Any, tuple[int, float]] = field(default_factory=dict)
    updates: dict[int, Vector | None] = field(default_factory=dict)  # by step

    def __post_init__(self) -> None:
        world = self.swarm.world
        credentials = Credentials(world.signatures, self.contact)
        self.contact = credentials.introduced(self.contact)
        self.session = self.contact.session
        self.machine = GroupPeer(self.contact, world.settings, credentials, self.swarm.groups, world.now)
        self._contacts: list[Contact] = []
        world.processes[self.session] = cast(Any, self)
        world.list_contact(self.contact)
        if self.state is not None:
            self.step = 0
            self.machine.begin(0)
        world.after(TICK * world.random.random(), self._tick)
        if self.tokens:
            world.after(BATCH * world.random.random(), self._compute)

    def die(self, *, breaks: bool = True) -> None:
        """End; others see that connections break, or they see nothing."""
        world = self.swarm.world
        self.is_alive, self.died_at = False, world.now
        world.has_died()
        if breaks:
            world.after(BREAKS, self._break)

    def _break(self) -> None:
        for one in self.swarm.living():
            one.machine.lost(self.session, self.swarm.world.now)
            one.carry_out()

    def receive(self, sender: str, message: Message, payload: Any) -> None:
        """A message has come."""
        if isinstance(message, Chunk):
            self.contents[message.digest] = payload
        elif isinstance(message, Piece):
            if payload is None:
                return
            self.pieces[sender, message.ballot, message.chunk, message.attempt] = payload
        self.machine.receive(sender, message, self.swarm.world.now)
        self.carry_out()

    def _tick(self) -> None:
        if self.is_alive:
            contacts = self.swarm.world.contacts()
            if contacts is not self._contacts:
                self.machine.contacts(contacts, self.swarm.world.now)
            else:
                self.machine.tick(self.swarm.world.now)
            self._contacts = contacts
            self.carry_out()
            assert len(self.contents) < 400, "memory grows without end"
            self.swarm.world.after(TICK, self._tick)

    def _compute(self) -> None:
        if not self.is_alive:
            return
        self.machine.computes()
        self.swarm.world.after(BATCH * (0.5 + self.swarm.world.random.random()), self._computed)

    def _computed(self) -> None:
        world, machine = self.swarm.world, self.machine
        if not self.is_alive:
            return
        is_new = machine.head is not None and self.step >= machine.head.step - 1 and not machine.is_behind
        if is_new and self.swarm.computes and machine.buffers.samples < world.settings.target_samples:
            gradient = np.array([world.random.gauss(1.0, 1.0) for _ in range(CHUNKS)])
            self.swarm.gradients.setdefault((self.session, machine.buffers.open_number), []).append(
                (self.tokens, gradient)
            )
            machine.computed(self.tokens, world.now, samples=self.tokens)
        else:
            machine.computed(0, world.now)
        self.carry_out()
        self._compute()

    def carry_out(self) -> None:
        """Do what the machine asks for."""
        while self.is_alive and (actions := self.machine.take_actions()):
            for action in actions:
                if self.is_alive:
                    self._do(action)

    def _do(self, action: Action) -> None:
        machine, world = self.machine, self.swarm.world
        match action:
            case Send(to, Piece() as piece):
                assert machine.reducing.plan is not None
                payload = self._own_piece(machine.reducing.plan, piece.chunk)
                self.swarm.sent(self, piece)
                world.send(cast(Any, self), to, piece, payload)
            case Send(to, message):
                payload = self.contents[message.digest] if isinstance(message, Chunk) else None
                self.swarm.sent(self, message)
                world.send(cast(Any, self), to, message, payload)
            case Average():
                self._average(action)
            case Apply(entry):
                self._apply(entry)
            case Credit(entries):
                self.swarm.credit(entries)
                machine.credited(entries)
            case Forget(digests):
                for digest in digests:
                    if not machine.fetching.holds([digest]):
                        self.contents.pop(digest, None)
            case _:
                self._do_with_state(action)

    def _do_with_state(self, action: Action) -> None:
        machine, world = self.machine, self.swarm.world
        match action:
            case Load(_, snapshot) if self.contents[snapshot] is None:
                self.swarm.spoilt.append(machine.cannot_load(snapshot, world.now))
            case Load((entry,), snapshot):
                self.step, self.state = entry.header.step, self.contents[snapshot].copy()
                self.swarm.loads += 1
                machine.reached(self.step, world.now)
            case EncodeParameters():
                assert self.state is not None
                self.swarm.parameters.setdefault(self.step, {})[self.session] = self.state.copy()
                machine.encoded([self._put(number) for number in self.state], world.now)
            case TakeParameters(chunks):
                self.state = np.array([self.contents[digest] for digest in chunks])
                self.swarm.averaged.setdefault(self.step, {})[self.session] = self.state.copy()
            case WriteSnapshot():
                assert self.state is not None
                content = None if self.contact.user in self.swarm.liars else self.state.copy()
                machine.snapshot_made(self.step, self._put(content), (), world.now)

    def _put(self, content: Any) -> str:
        digest = hashlib.sha256(repr(content).encode()).hexdigest()
        self.contents[digest] = content
        return digest

    def _own_piece(self, plan: Plan, chunk: int) -> tuple[int, float] | None:
        numbers = plan.buffers_of(self.session)
        if any(number >= CARRIED for number in numbers):
            mean = self.machine.group_step.carried(numbers)
            return None if mean is None else (mean.weight, self.contents[mean.chunks[chunk]])
        batches = [batch for number in numbers for batch in self.swarm.gradients[self.session, number]]
        weight = sum(tokens for tokens, _ in batches)
        return weight, sum(tokens * gradient[chunk] for tokens, gradient in batches) / weight

    def _average(self, action: Average) -> None:
        plan, pieces = action.plan, []
        weights = {one.session: one.weight for one in plan.members}
        for sender in action.senders:
            is_own = sender == self.session
            key = (sender, plan.ballot, action.chunk, action.attempt)
            piece = self._own_piece(plan, action.chunk) if is_own else self.pieces[key]
            if piece is None:  # this peer's own, whose round has ended a moment ago
                continue
            assert piece[0] == weights[sender], "a piece weighs what its sender has called with"
            pieces.append(piece)
        if not pieces:
            self.machine.reducing.cannot_average(action)
            return
        mean = sum(weight * value for weight, value in pieces) / sum(weight for weight, _ in pieces)
        self.machine.averaged(action, self._put(mean), self.swarm.world.now)

    def _apply(self, entry: Entry) -> None:
        assert self.state is not None and entry.header.step == self.step + 1
        update = np.array([self.contents[digest] for digest in entry.header.chunks])
        self.updates[entry.header.step] = update if len(update) else None
        if len(update):
            self.state = self.state - update
        self.step += 1
        self.pieces = {key: one for key, one in self.pieces.items() if key[1] > entry.certificate.ballot}
        self.machine.reached(self.step, self.swarm.world.now)


class Swarm:
    """A coordinator and its trainers.

    Args:
        size: of a group.
        tokens: and samples, of a batch.
        batches: of a trainer in a step.
        reachable: share of the trainers that accept connections.
    """

    def __init__(
        self,
        seed: int,
        trainers: int,
        size: int,
        *,
        rounds: int | None = None,
        state_every: int = 3,
        tokens: int = 10,
        batches: int = 2,
        reachable: float = 0.7,
    ):
        settings = Settings(
            "groups", target_samples=trainers * batches * tokens, chunks=CHUNKS, snapshot_every=10, most_masked=1
        )
        self.world = World(seed, settings)
        self.groups, self.reachable = GroupSettings(size, rounds, state_every), reachable
        self.gradients: dict[tuple[str, int], list[tuple[int, Vector]]] = {}  # by session and buffer
        self.parameters: dict[int, dict[str, Vector]] = {}  # before they were averaged, by step and session
        self.averaged: dict[int, dict[str, Vector]] = {}  # and after it
        self.credited: dict[tuple[str, int], str] = {}  # digest of a header by session and buffer
        self.headers: dict[str, Header] = {}  # by digest
        self.loads, self.computes = 0, True
        self.liars: set[str] = set()  # users who give states that are of no use
        self.spoilt: list[str] = []  # sessions that have given them
        self.peers: list[Peer] = []
        self.start("coordinator", 0, is_coordinator=True, state=np.zeros(CHUNKS))
        for number in range(trainers):
            self.world.at(self.world.random.random(), partial(self.start, f"user{number:02d}", tokens))

    def start(self, user: str, tokens: int, *, is_coordinator: bool = False, state: Vector | None = None) -> Peer:
        """Another process of somebody."""
        count = sum(one.contact.user == user for one in self.peers)
        is_reachable = is_coordinator or self.world.random.random() < self.reachable
        peer = Peer(self, Contact(f"{user}.{count:03d}", user, is_reachable, is_coordinator), tokens, state)
        self.peers.append(peer)
        return peer

    def sent(self, sender: Peer, message: Message) -> None:
        """For tests to strike at a moment."""

    def credit(self, entries: tuple[Entry, ...]) -> None:
        """The coordinator's ledger."""
        for entry in entries:
            header = entry.header
            assert self.headers.setdefault(header.digest, header) is header, "credited twice"
            having = {one.session for one in contributions(header)}
            for member in header.members:
                if member.session in having:
                    offered = [one for number in member.buffers for one in self.gradients[member.session, number]]
                    assert member.weight == sum(tokens for tokens, _ in offered)
                    for number in member.buffers:
                        assert self.credited.setdefault((member.session, number), header.digest) == header.digest

    def living(self) -> list[Peer]:
        """Peers that have not died."""
        return [one for one in self.peers if one.is_alive]

    def steps(self) -> list[int]:
        """Of the living."""
        return [one.step for one in self.living()]

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.world.run_until(self.world.now + seconds)


def spread(vectors: dict[str, Vector]) -> float:
    """Mean squared distance from the mean of all."""
    values = np.array(list(vectors.values()))
    return float(((values - values.mean(axis=0)) ** 2).sum(axis=1).mean())
