"""Shells of several peers in one event loop of virtual time: real gradients, updates and states; no sockets."""

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace
from torch import Tensor

from averaging.load_balancing.plan import GlobalStep, plan_round
from averaging.log.content_store import Store
from averaging.log.disk import LOG_FILE, Disk
from averaging.log.entry_file import entries_after
from averaging.log.header import Entry, Header
from averaging.log.state import Layout
from averaging.moshpit.group_keys import GroupSettings
from averaging.optimizers.state_step import StateOptimizer, initial_state
from averaging.protocol.messages import Contact, Message
from averaging.protocol.settings import Settings
from averaging.reduce.clipping import Robust
from averaging.reduce.gradient_buffers import GradientBuffers
from averaging.reduce.gradient_codec import Compression, vector_bytes
from averaging.reduce.grid import Grid
from averaging.shell.genesis import begin
from averaging.shell.locked_machine import LockedMachine
from averaging.shell.replay import Replay
from averaging.shell.shell import Shell
from swarm.run_file import OptimizerSection
from tests.averaging.shell.virtual.aside import Aside
from tests.averaging.shell.virtual.thin_lines import Lines
from tests.simulation.signatures import Credentials, Signatures

LAYOUT = Layout(("matrix", "bias"), ((300, 200), (200,)))
OPTIMIZER = OptimizerSection(learning_rate=0.05, warmup_steps=1, total_steps=1000)
TOKENS = 100  # masked tokens of a batch
RUN = "a run"


@dataclass
class Village:
    """A run of several peers."""

    folder: Path
    compression: Compression = "none"
    snapshot_every: int = 5
    target: int = 1200  # samples, of a masked token each
    groups: GroupSettings | None = None  # of a run without a log
    robust: Robust = "off"
    on_probation: frozenset[str] = frozenset()  # users
    shells: dict[str, Shell] = field(default_factory=dict)  # by session
    sent: dict[str, list[Message]] = field(default_factory=dict)  # by session
    sessions: list[str] = field(default_factory=list)  # that there have been
    trainers: dict[str, "asyncio.Task[None]"] = field(default_factory=dict)
    entries: dict[int, Entry] = field(default_factory=dict)  # applied by anybody, by step
    asides: dict[str, Aside] = field(default_factory=dict)  # by session
    disks: dict[str, Disk] = field(default_factory=dict)  # by session
    stores: dict[str, Store] = field(default_factory=dict)  # by session
    is_cut: Callable[[str, str], bool] = lambda sender, to: False
    may_fork: bool = False  # two chains may be applied, until one has lost
    lines: Lines = field(default_factory=lambda: Lines({}))
    spoil: Callable[[str, Message, bytes | None], bytes | None] = lambda sender, message, payload: payload

    def __post_init__(self) -> None:
        self.random, self.signatures = random.Random(1), Signatures()
        self.grid = Grid(LAYOUT.size)
        self.goal = torch.linspace(-1, 1, LAYOUT.size)

    @property
    def settings(self) -> Settings:
        """What peers agree on."""
        return Settings(RUN, self.target, self.grid.count, self.snapshot_every, robust=self.robust)

    def add(
        self, name: str, *, reachable: bool = True, begins: bool = False, seconds: float = 0.05, memory: int = 2**26
    ) -> Shell:
        """One more peer; the one that begins the run is its coordinator.

        Args:
            seconds: that each of its steps takes, and whatever else is done aside.
            memory: bytes for updates and snapshots, where there is no disk.
        """
        number = sum(session.startswith(f"{name}.") for session in self.sessions)
        me = Contact(f"{name}.{number}", name, reachable, is_coordinator=begins)
        credentials = Credentials(self.signatures, me)
        me = credentials.introduced(me)
        self.sessions.append(me.session)
        disk = Disk(self.folder / name, 2**20) if begins else None
        contents = disk.contents if disk and self.groups is None else Store(None, memory)
        optimizer, aside = StateOptimizer(LAYOUT, OPTIMIZER), Aside(seconds)
        replay = Replay(RUN, optimizer, self.grid, self.compression, self.snapshot_every, contents)
        step = GlobalStep(self.grid.count, vector_bytes(self.grid, self.compression), self.target)
        gradients, planner = GradientBuffers(self.grid, self.compression), partial(plan_round, step)
        locked = LockedMachine(me, self.settings, gradients, planner, credentials, self.groups)
        begin(locked.machine, replay, disk, lambda: initial_state(LAYOUT, self.first_tensors()))
        shell = Shell(locked, replay, disk, Cable(self, credentials), aside, self.note)
        self.shells[me.session], self.asides[me.session], self.stores[me.session] = shell, aside, contents
        if disk is not None:
            self.disks[me.session] = disk
        self.introduce()
        return shell

    async def begin(
        self, *, names: Iterable[str] = ("asha", "bela", "chand"), steps: int = -1, overlap: bool = False
    ) -> Shell:
        """The coordinator, once it and trainers have begun a run and made so many steps."""
        coordinator = self.add("coordinator", begins=True)
        for name in names:
            self.train(self.add(name), overlap=overlap)
        await self.until(lambda: len(self.entries) > steps)
        return coordinator

    async def more_steps(self, steps: int, seconds: float = 600.0) -> None:
        """Let so many more be made."""
        goal = self.newest.step + steps
        await self.until(lambda: self.newest.step >= goal, seconds)

    @property
    def newest(self) -> Header:
        """The newest header that anybody has applied."""
        return self.entries[max(self.entries)].header

    @staticmethod
    def first_tensors() -> list[Tensor]:
        """The parameters that the run begins with."""
        generator = torch.Generator().manual_seed(0)
        return [torch.randn(shape, generator=generator) for shape in LAYOUT.shapes]

    def distance(self, shell: Shell) -> float:
        """From the goal."""
        state = shell.replay.state
        assert state is not None
        return float((state.parameters - self.goal).norm())

    def renew(self, shell: Shell, credentials: Credentials) -> Contact:
        """Another session, which is connected a moment later."""
        old = shell.machine.me
        number = sum(session.startswith(f"{old.user}.") for session in self.sessions)
        me = replace(old, session=f"{old.user}.{number}")
        credentials.begin(me)
        me = credentials.introduced(me)
        self.sessions.append(me.session)

        def connect() -> None:
            known: list[dict[str, Any]] = [self.shells, self.asides, self.disks, self.trainers]
            for by_session in known:
                if old.session in by_session:
                    by_session[me.session] = by_session.pop(old.session)
            self.introduce()

        asyncio.get_running_loop().call_later(1.0, connect)
        return me

    def credited(self, name: str) -> list[Entry]:
        """What a coordinator has on its disk, for its credit."""
        return entries_after(self.folder / name / LOG_FILE, None, 10_000)[0]

    def note(self, entry: Entry, *_: object) -> None:
        """All peers apply the same."""
        known = self.entries.setdefault(entry.header.step, entry)
        assert self.may_fork or self.groups or known.header.digest == entry.header.digest

    def introduce(self) -> None:
        """Everybody knows of everybody."""
        contacts = [one._machine.me for one in self.shells.values()]
        for shell in self.shells.values():
            shell.contacts(contacts, self.on_probation)

    def train(
        self,
        shell: Shell,
        *,
        seconds: float = 1.0,
        goal: Tensor | None = None,
        tokens: int = TOKENS,
        overlap: bool = False,
        times: float = 1.0,
    ) -> None:
        """Have a peer compute batches, one after the other: how far the parameters are from a goal.

        Args:
            times: what a liar multiplies that by.
        """
        target = self.goal if goal is None else goal

        async def work() -> None:
            while True:
                if not shell.may_compute(overlap=overlap):
                    await asyncio.sleep(0.1)
                    continue
                state = shell.begin_batch()
                await asyncio.sleep(seconds)
                shell.contribute((state.parameters - target) * (times * tokens), tokens, samples=tokens)

        session = shell._machine.me.session
        self.trainers[session] = asyncio.get_running_loop().create_task(work())

    async def until(self, happened: Callable[[], object], seconds: float = 600.0) -> None:
        """Let virtual time pass."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not happened():
            assert asyncio.get_running_loop().time() < deadline, "it does not happen"
            for shell in self.shells.values():
                if shell.failure.done():
                    shell.failure.result()
            await asyncio.sleep(0.05)

    async def rest(self) -> None:
        """No more batches; all peers come to the same header."""
        for task in self.trainers.values():
            task.cancel()
        await self.until(self.is_at_one)
        await asyncio.sleep(5.0)
        await self.until(self.is_at_one)

    def is_at_one(self) -> bool:
        """Whether all machines are at the same header, and all states at its step."""
        heads = {one._machine.head for one in self.shells.values()}
        steps = {one.replay.state.step if one.replay.state else -1 for one in self.shells.values()}
        return len(heads) == 1 and steps == {head.step for head in heads if head}

    async def die(self, shell: Shell) -> None:
        """End without a word; connections to it break."""
        session = shell._machine.me.session
        del self.shells[session]
        self.asides.pop(session).die()
        if session in self.trainers:
            self.trainers.pop(session).cancel()
        await shell.stop()
        for other in self.shells.values():
            other.lost(session)


@dataclass
class Cable:
    """The network."""

    village: Village
    credentials: Credentials

    def renew(self, shell: Shell) -> Contact:
        """See `averaging.shell.shell.Network`."""
        return self.village.renew(shell, self.credentials)

    def send(
        self, session: str, to: str, message: Message, payload: "Callable[[], bytes | None] | None" = None
    ) -> None:
        """See `averaging.shell.shell.Network`."""
        village = self.village
        if session not in village.shells:
            return
        village.sent.setdefault(session, []).append(message)

        def moving() -> None:
            if to in village.shells:
                village.shells[to].moving([session])

        def deliver(content: bytes) -> None:
            if to in village.shells:
                village.shells[to].received(to, session, message, content)

        if payload is not None and village.lines.carry(session, to, payload, moving, deliver):
            return
        content = payload() if payload is not None else None
        if payload is not None and content is None:
            return
        content = self.village.spoil(session, message, content)

        def arrive() -> None:
            if to in self.village.shells and not self.village.is_cut(session, to):
                self.village.shells[to].received(to, session, message, content)

        asyncio.get_running_loop().call_later(0.02 + 0.05 * self.village.random.random(), arrive)


def step_of(shell: Shell) -> int:
    return -1 if shell.replay.state is None else shell.replay.state.step
