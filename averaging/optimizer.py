"""The collaborative optimizer: what a trainer or the coordinator holds of a run. Its parts are beside it.

Gradients go into the shell, which adds them up for the next global step; states come out of it, and the model takes
over the newest one between two batches. Everything else happens in a thread with an event loop.
"""

import logging
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from functools import partial

import torch
from torch.nn import Parameter

from averaging.load_balancing.plan import global_step, plan_round
from averaging.log.content_store import Store
from averaging.log.disk import Disk
from averaging.log.header import Gap, Header
from averaging.log.moment_codec import rebase
from averaging.log.snapshot import Manifest, write_snapshot
from averaging.log.state import Layout, State
from averaging.moshpit.group_keys import GroupSettings
from averaging.optimizers.state_step import StateOptimizer, initial_state
from averaging.protocol.settings import Settings
from averaging.reduce.gradient_buffers import GradientBuffers
from averaging.reduce.gradient_vector import GradientVector
from averaging.reduce.grid import Grid
from averaging.shell.audit import Comparison, Verdict
from averaging.shell.connection import Connection, Membership
from averaging.shell.genesis import begin
from averaging.shell.locked_machine import LockedMachine
from averaging.shell.replay import Replay
from averaging.shell.shell import Progress, Shell
from averaging.shell.stepping import Applied
from averaging.transport.loop import LoopEnded, LoopThread
from swarm.errors import SahajError, StorageError, SwarmError
from swarm.run_file import AveragingSection

logger = logging.getLogger(__name__)

IN_MEMORY = 2**30  # bytes of updates and snapshots; a coordinator with more has them in files
ROUNDS = 16  # updates of rounds that go on or have failed, beside those that are kept
MOST_ROUNDS = 5  # of a full grid: more than 16^5 peers would need more
NO_WAY_BACK = "a run in small groups cannot go back; end it, and open it again with the older checkpoint"
LEAVING = 45.0  # seconds that it may take


class CollaborativeOptimizer:
    """Make it after all processes that are forked. Its methods are for one thread, that of the trainer.

    Args:
        parameters: of the model, in an order that all peers have; see `Layout`.
        applied: is told of each header after its step, in another thread.
        first: the state with which a coordinator opens the run, by default that of the parameters.
        audited: is told what a coordinator finds out about members, in the thread of the event loop.
    """

    def __init__(
        self,
        membership: Membership,
        parameters: Sequence[tuple[str, Parameter]],
        applied: Applied = lambda *_: None,
        first: Callable[[Layout], State] | None = None,
        audited: Callable[[Verdict | Comparison], None] = lambda found: None,
    ):
        self._membership, self._parameters = membership, [one for _, one in parameters]
        self.layout = Layout.of(parameters, has_muon=membership.run.optimizer.name == "muon")
        self._gradient = GradientVector(self._parameters)
        self._overlap = membership.run.averaging.overlap
        self._connection = Connection(membership)
        self.sessions = self._connection.sessions  # of this peer, one after the other
        self._loaded: State | None = None  # what the model has
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="steps")
        self._loop = LoopThread()
        self._shell: Shell = self._loop.call(self._begin(applied, first, audited))

    async def _begin(
        self,
        applied: Applied,
        first: Callable[[Layout], State] | None,
        audited: Callable[[Verdict | Comparison], None],
    ) -> Shell:
        one, grid = self._membership, Grid(self.layout.size)
        averaging = one.run.averaging
        facts = Settings(
            run=one.fingerprint,
            target_samples=averaging.target_batch_size,
            chunks=grid.count,
            snapshot_every=averaging.snapshot_every,
            most_masked=math.ceil(one.run.data.max_length * one.run.data.masked_fraction),
            last_step=one.run.optimizer.total_steps,
            robust=one.run.access.robust,
        )
        groups = group_settings(averaging)
        memory = max(IN_MEMORY, most_bytes(self.layout.size, averaging.snapshot_every, groups))
        disk = Disk(one.folder, IN_MEMORY) if one.folder is not None else None  # of small groups: headers for credit
        store = disk.contents if disk is not None and groups is None else Store(None, memory)
        optimizer, compression = StateOptimizer(self.layout, one.run.optimizer), averaging.compression
        replay = Replay(facts.run, optimizer, grid, compression, facts.snapshot_every, store)
        planner, me = partial(plan_round, global_step(averaging, grid)), one.new_contact()
        locked = LockedMachine(me, facts, GradientBuffers(grid, compression), planner, one.credentials, groups)
        parameters = [one.detach().cpu() for one in self._parameters]
        make = first or (lambda layout: initial_state(layout, parameters))
        begin(locked.machine, replay, disk, lambda: make(self.layout))
        shell = Shell(locked, replay, disk, self._connection, self._aside, applied, audited)
        await self._connection.open(me, shell)
        return shell

    @property
    def session(self) -> str:
        """The one that this peer has now; it begins another one when its chain has lost."""
        return self.sessions[-1]

    @property
    def states_loaded(self) -> int:
        """Snapshots that this peer has taken over from others."""
        return self._shell.replay.loaded

    @property
    def progress(self) -> Progress:
        """Towards the next global step."""
        return self._shell.progress()

    @property
    def upload(self) -> float | None:
        """What this peer's line carries, in Mbit/s; None: it has not been measured."""
        bandwidth = self._shell.bandwidth
        return None if bandwidth is None else bandwidth.upload

    @property
    def traffic(self) -> int:
        """Bytes that this peer has sent and fetched."""
        return self._connection.traffic

    def computes_at(self, speed: float) -> None:
        """How many samples a second this peer computes; what rounds are planned with. 0, as of a coordinator: none."""
        self._shell.computes_at(speed)

    def roll_back(self, state: State) -> None:
        """Have the run go on from another state, by the authority of this coordinator: the next header will say so.

        Raises:
            StorageError: the disk does not take the state.
            SwarmError: the run has no log.
            ValueError: the state does not fit the run.
        """
        if self._membership.run.averaging.target_group_size is not None:
            raise SwarmError(NO_WAY_BACK)
        state = state.with_own_moments()
        rebase(state)
        with self._shell.replay.store.all_or_none() as put:
            self._loop.call(self._order(write_snapshot(state, self._membership.fingerprint, "", put)))

    def target_of(self, rollback: Header) -> int:
        """The step of the older state; to be asked in `applied`, as the snapshot may be dropped later."""
        assert rollback.snapshot is not None, "a rollback names its target"
        return self._shell.replay.manifest(rollback.snapshot.digest).step

    async def _order(self, manifest: Manifest) -> None:
        store = self._shell.replay.store
        if not all(map(store.has, manifest.chunks)):  # one was shared with an older snapshot, dropped since
            raise StorageError("a snapshot was dropped while this one was being written; try the rollback again")
        self._shell.roll_back(manifest)

    def lacks(self, gaps: Sequence[Gap]) -> None:
        """Ask other peers for headers that the disk of this coordinator has lost."""
        self._loop.soon(self._shell.lacks, gaps)

    # -- between two batches

    @property
    def step(self) -> int:
        """Of the newest state, -1 while there is none."""
        state = self._shell.replay.state
        return -1 if state is None else state.step

    @property
    def state(self) -> State | None:
        """The newest one, which nothing changes any more."""
        return self._shell.replay.state

    @property
    def trains(self) -> bool:
        """Whether to compute a batch now; otherwise look again a moment later."""
        self.check()
        return self._shell.may_compute(overlap=self._overlap)

    def await_state(self, seconds: float) -> None:
        """Wait until there is a newer state than at the last call, or for so many seconds."""
        self._shell.await_state(seconds)

    def begin_batch(self) -> int:
        """Have the newest parameters in the model; returns their step."""
        state = self._shell.begin_batch()
        if state is not self._loaded:
            with torch.no_grad():
                for own, newest in zip(self._parameters, self.layout.views(state.parameters), strict=True):
                    own.copy_(newest)
            self._loaded = state
        return state.step

    def end_batch(self, tokens: int, samples: int = 1, loss: float = math.nan) -> bool:
        """Add the gradients in `param.grad`, a mean over so many masked tokens, finite; 0: they are of no use.

        Returns whether they count.

        Args:
            loss: the mean over the masked tokens, in nats.

        Raises:
            ValueError: they are of more than others believe.
        """
        if not tokens:
            return self._shell.contribute(None, 0)
        if not self._shell.settings.may_bring(samples, tokens):
            most = self._shell.settings.most_samples
            raise ValueError(
                f"a batch of {samples} samples with {tokens} masked tokens: {most} samples, of the run's "
                "length and share of masked tokens, are most that a peer may bring to a global step"
            )
        return self._shell.contribute(self._gradient.times(tokens), tokens, samples=samples, loss=loss * tokens)

    def shutdown(self) -> None:
        """Say goodbye and end, within seconds."""
        self._loop.soon(self._shell.leave)
        try:
            self._loop.call(self._end(), timeout=LEAVING)
        except (TooLate, LoopEnded) as error:
            logger.warning("left without all last words: %r", error)
        finally:
            self._loop.stop()
            self._aside.shutdown()

    async def _end(self) -> None:
        await self._connection.leave()
        await self._shell.stop()

    def check(self) -> None:
        """Raise what has ended this peer's part in the run, if something has; a coordinator asks now and then.

        Raises:
            SahajError: a disk that cannot be read, or a mistake of the program.
        """
        error = self._shell.failure.exception() if self._shell.failure.done() else None
        if isinstance(error, SahajError):
            raise error
        if error is not None:
            raise SwarmError(f"this peer can take part no longer ({error!r}); start it again") from error


def group_settings(averaging: AveragingSection) -> GroupSettings | None:
    """Of a run in small groups."""
    size = averaging.target_group_size
    return None if size is None else GroupSettings(size, averaging.rounds_per_step, averaging.state_every)


def most_bytes(elements: int, snapshot_every: int, groups: GroupSettings | None = None) -> int:
    """What a peer holds: two snapshots, a new one, one to compare, updates since the last but one, and open rounds.

    In small groups: means of gradients and parameters in the rounds of two steps.
    """
    update = 4 * elements  # of float32; other encodings have less
    updates = 2 * snapshot_every + ROUNDS if groups is None else 4 * (1 + (groups.rounds or MOST_ROUNDS))
    return 4 * 8 * elements + updates * update
