"""The collaborative optimizer: gradients of all peers add up to one LAMB step (DeDLOC, section 3).

What this changes in hivemind's `Optimizer`:
- a peer whose round failed takes no step. Upstream takes it with the peer's own gradients, and its
  parameters drift away in silence. Here the peer goes back to the global step it was at; if it hears that
  others have taken the step, it takes over their state, and otherwise all try the step again.
- a round begins when the batch is full *and* a group has been found (`meeting.py`); until then gradients go on adding
  up. Upstream begins without a group, and without one the round fails.
- `poll` does everything but add samples: for a peer that holds the state and computes nothing.
- a peer that has computed all that it can weigh in the next step (`claims.HEAVIEST`) computes no more until then.
- leaving takes seconds, even in the middle of a round.
"""

import math
import queue
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from hivemind.averaging.control import StepControl
from hivemind.dht import DHT
from hivemind.optim.grad_scaler import GradScaler
from hivemind.utils import get_logger

from averaging.optimizers.lamb import Lamb
from averaging.optimizers.schedule import learning_rate_at
from swarm.gate import Gate
from swarm.identity import Identity
from swarm.run_file import RunFile
from trainer.averaging.claims import HEAVIEST
from trainer.averaging.compression import gradient_compression, state_compression
from trainer.averaging.copies import REACH, REACH_ON_GRID
from trainer.averaging.gradients import SwarmGradientAverager
from trainer.averaging.groups import Group
from trainer.averaging.lines.caps import NO_CAPS, Caps
from trainer.averaging.lines.measured import OwnLine
from trainer.averaging.meeting import Meeting
from trainer.averaging.moshpit.rounds import GridControl
from trainer.averaging.moshpit.swarm_grid import SwarmGrid
from trainer.averaging.progress import SwarmProgress
from trainer.averaging.roles import Role, SwarmStep
from trainer.averaging.rounds import RoundFailed, RoundReport, reason
from trainer.averaging.state import SwarmStateAverager

logger = get_logger(__name__)

STATE_TIMEOUT = 1800.0  # seconds for a whole state; silence in between is limited by chunk_timeout
LINGER = 3.0  # seconds from a round's beginning in which a peer does not leave
TOLD_EVERY = 1.0  # seconds between two reports of a peer that waits with samples
GOODBYE = 3.0  # seconds that a leaving peer gives to a round it is in


class SwarmOptimizer(Meeting):
    """hivemind's optimizer, with the changes above. Make it with `make_optimizer`."""

    def __init__(
        self,
        *,
        run: RunFile,
        dht: DHT,
        identity: Identity,
        parameters: Iterable[dict[str, Any]],
        holds_state: bool,
        gate: Gate | None,
        caps: Caps,
    ):
        self.caps, self.line, self._role = caps, OwnLine.within(caps), Role()
        self.run, self.identity, self.holds_state, self.gate = run, identity, holds_state, gate
        self._heaviest = HEAVIEST * run.averaging.target_batch_size
        self._last_batch = 0  # samples
        self._told_at = 0.0  # monotonic seconds, of samples that wait while this peer computes nothing
        self.rounds_begun = 0
        self._reports: queue.SimpleQueue[RoundReport] = queue.SimpleQueue()
        self._grid = None
        if run.averaging.target_group_size is not None:
            self._grid = SwarmGrid(run.averaging, dht.peer_id.to_bytes(), self._near)
        self._round: tuple[int, int, int, float] = (0, 0, 0, 0.0)  # number, step, samples and start of the current one
        averaging = run.averaging
        super().__init__(
            dht=dht,
            run_id=run.name,
            target_batch_size=averaging.target_batch_size,
            params=list(parameters),
            optimizer=partial(Lamb, run.optimizer),
            client_mode=dht.client_mode,  # upstream reads this argument the wrong way round unless it is given
            matchmaking_time=averaging.matchmaking_time,
            averaging_timeout=averaging.averaging_timeout,
            next_chunk_timeout=averaging.chunk_timeout,
            load_state_timeout=STATE_TIMEOUT,
            offload_optimizer=True,
            delay_optimizer_step=True,
            delay_grad_averaging=True,
            average_state_every=averaging.state_every,
            grad_compression=gradient_compression(averaging.compression),
            state_averaging_compression=state_compression(averaging.compression),
            grad_averager_factory=partial(
                SwarmGradientAverager,
                request_timeout=averaging.request_timeout,
                gate=gate,
                heaviest=self._heaviest,
                assists=holds_state,
                own_caps=caps,
                own_line=self.line,
                swarm_step=None
                if self._grid or holds_state
                else SwarmStep(averaging.target_batch_size, averaging.overlap),
            ),
            averager_opts={"request_timeout": averaging.request_timeout},
            tracker_opts={
                "max_refresh_period": min(10.0, max(1.0, averaging.matchmaking_time)),
                "default_refresh_period": min(3.0, averaging.matchmaking_time / 4),  # while nobody is there
            },
            shutdown_timeout=GOODBYE,
        )

    def _make_progress_tracker(self, target_batch_size: int, **kwargs: Any) -> SwarmProgress:
        return SwarmProgress(
            dht=self.dht,
            prefix=self.run_id,
            target_batch_size=target_batch_size,
            client_mode=self.client_mode,
            holds_state=self.holds_state,
            signed_step=lambda: self.gate.notices.restored_at if self.gate else 0,
            longest_round=self.run.averaging.averaging_timeout,
            computes=lambda: self.computes,
            private_key=self.identity.private_key,  # the DHT signs with this key only
            start=True,
            **kwargs,
        )

    def _make_state_averager(self, **kwargs: Any) -> SwarmStateAverager:
        return SwarmStateAverager(
            dht=self.dht,
            prefix=f"{self.run_id}_state_averager",
            learning_rate=partial(learning_rate_at, self.run.optimizer),
            min_matchmaking_time=self.matchmaking_time,
            allreduce_timeout=self.allreduce_timeout,
            shutdown_timeout=self.shutdown_timeout,
            offload_optimizer=True,
            custom_gradients=True,
            initialize_optimizer=False,  # LAMB has all its state from the start; upstream would take a step for it
            status_loglevel=self.status_loglevel,
            next_chunk_timeout=self.next_chunk_timeout,
            client_mode=self.client_mode,
            gate=self.gate,
            own_caps=self.caps,
            own_line=self.line,
            grid=self._grid,
            reach=(REACH_ON_GRID if self._grid else REACH) * self.run.averaging.state_every,
            start=True,
            **kwargs,
        )

    def step(self, batch_size: int) -> None:
        """Add the gradients in `param.grad`, a mean over `batch_size` samples, and go on as `poll`."""
        if self._take_over_newer_state():
            return  # these gradients belong to parameters that we no longer have
        self._last_batch = batch_size
        self._check_and_accumulate_gradients(batch_size, None)
        self._advance()

    def poll(self) -> None:
        """Follow the swarm without adding samples: find groups, average, take the step, catch up."""
        if not self._take_over_newer_state():
            self._tell_what_waits()
            self._advance()

    def _tell_what_waits(self) -> None:
        """Samples that were told before a round of the others failed count no more for them (`progress.py`)."""
        if self.samples_gathered and time.monotonic() >= self._told_at + TOLD_EVERY:
            self._told_at = time.monotonic()
            self.tracker.report_local_progress(self.local_epoch, self.samples_gathered)

    @property
    def trains(self) -> bool:
        """Whether this peer should compute gradients now; otherwise it is to `poll`, and averages for the others."""
        return self.computes and not self.is_full

    @property
    def computes(self) -> bool:
        """Whether computing gradients is among what this peer does for the swarm at this time."""
        return not self.holds_state and self._role.trains(time.monotonic())

    @property
    def is_full(self) -> bool:
        """Whether one batch more would be more than this peer can weigh in the next step: it would not count."""
        gathered = self.samples_gathered
        return gathered > 0 and gathered + self._last_batch > self._heaviest

    @property
    def settled_step(self) -> int:
        """Global steps that this peer has taken, without one whose round is still open. Threads may ask."""
        while True:
            step = self.local_epoch
            in_flight = self._round_open or not self.state_averager.settled.is_set()
            _, begun_at, *_ = self._round
            if self.local_epoch == step:  # it was neither begun nor undone meanwhile
                return step - (in_flight and step != begun_at)

    def ended_rounds(self) -> list[RoundReport]:
        """The rounds that ended since this was last asked."""
        ended = []
        while not self._reports.empty():
            ended.append(self._reports.get())
        return ended

    def _advance(self) -> None:
        self._maybe_schedule_gradient_averaging()
        self._maybe_schedule_state_averaging()
        if self.tracker.ready_to_update_epoch and (self._has_group() or self._goes_without_group()):
            self._update_global_epoch(None)
            if not self.run.averaging.overlap:
                self.finish_round()

    def _begin_averaging_gradients(self, grad_scaler: GradScaler | None) -> bool:
        self.rounds_begun += 1
        self._round = (self.rounds_begun, self.local_epoch, self.samples_gathered, time.monotonic())
        if not self._has_group():  # the others have left, or meet elsewhere on the grid
            self.scheduled_grads = self._later_rounds()
        if self._grid is not None:
            self._grid.forget_missed()
        self._round_open = self.scheduled_grads is not None and super()._begin_averaging_gradients(grad_scaler)
        if self._round_open:
            self.tracker.round_began()
        else:
            self._report()
        return self._round_open

    def _average_gradients_and_load_into_optimizer(self, maybe_step_control: StepControl | None) -> None:
        """Runs in the background: wait for the round; without a usable gradient, undo the step."""
        assert maybe_step_control is not None
        try:
            group, norm = self._result_of(maybe_step_control)
            self.tracker.round_ended()
            self._load_averaged_gradients_into_optimizer_()
            self._last_group = len(group)
            self._report(group, norm, news=self._role.take(group.assigned, time.monotonic()))
        finally:
            self._round_open = False

    def _result_of(self, control: StepControl) -> tuple[Group, float]:
        """The group that has averaged and the norm of the gradient; if there is none, the step is undone.

        Raises:
            RoundFailed: with the reason.
        """
        group: Group | None = None
        try:
            group = control.result(self.averaging_timeout)
            assert group is not None
            if group.problem:
                raise RoundFailed(group.problem)
            with self.grad_averager.get_tensors() as gradients:
                norm = float(torch.stack(torch._foreach_norm(list(gradients))).norm())
            if not math.isfinite(norm):
                raise RoundFailed("the averaged gradient is not finite")
        except BaseException as error:
            control.cancel()
            self._go_back(self._round[1])
            problem = reason(error)
            self._report(group, problem=problem)
            raise RoundFailed(problem) from None
        return group, norm

    def _go_back(self, step: int) -> None:
        """The step was not taken: be at `step` again."""
        self.grad_averager.notify_used_averaged_gradients()
        self.state_averager.local_epoch = step
        self.tracker.round_failed(step, self.samples_gathered)

    def _report(
        self,
        group: Group | None = None,
        norm: float | None = None,
        problem: str | None = None,
        news: str | None = None,
    ) -> None:
        """`group` is the one that averaged; none, and no problem: this peer took the step alone."""
        number, step, samples, began = self._round
        weights = group.weights if group is not None else None
        self._reports.put(
            RoundReport(
                number,
                step,
                samples,
                peers=len(group) if group is not None else int(problem is None),
                seconds=time.monotonic() - began,
                problem=problem,
                gradient_norm=norm,
                weights=None if weights is None else {str(peer_id): weight for peer_id, weight in weights.items()},
                not_finite=[str(peer_id) for peer_id in group.not_finite] if group is not None else (),
                assisted=group is not None and group.assisted,
                news=news,
            )
        )

    def hurry(self) -> None:
        """From another thread: have `step` and `poll` return soon; the round that they wait for has failed here."""
        self.hurries = True
        for control in (self.scheduled_grads, self.scheduled_state):
            if isinstance(control, GridControl):
                control.cancel()  # or it would begin the next round
        for averager in (self.grad_averager, self.state_averager):
            averager.leave_round()

    def linger(self) -> None:
        """Stay a moment after a round: others may still be fetching the parts that this peer reduced."""
        *_, began = self._round
        time.sleep(max(0.0, min(LINGER, began + LINGER - time.monotonic())))

    def shutdown(self) -> None:
        """Say goodbye and stop the averagers, within about three times `GOODBYE` seconds."""
        self.tracker.shutdown(GOODBYE)
        for control in (self.scheduled_grads, self.scheduled_state):
            if control is not None and not control.done():
                control.cancel()
        for update in list(self.state_averager.pending_updates):
            try:
                update.result(GOODBYE)
            except BaseException as error:
                logger.debug(f"left in the middle of a round: {error!r}")
        self.state_averager.shutdown()
        self.grad_averager.shutdown()


def make_optimizer(
    run: RunFile,
    dht: DHT,
    identity: Identity,
    parameters: Iterable[dict[str, Any]],
    *,
    holds_state: bool = False,
    gate: Gate | None = None,
    caps: Caps = NO_CAPS,
) -> SwarmOptimizer:
    """The optimizer of one peer.

    Args:
        run: the run file; all peers must agree on its `optimizer` and `averaging`.
        dht: a node of the run's DHT; its client mode is the optimizer's.
        identity: the identity that the DHT node was started with.
        parameters: parameter groups, in the same order on all peers.
        holds_state: compute nothing, hold the newest state, and help others to average (the coordinator).
        gate: shows our pass and checks theirs; absent where everybody may take part.
        caps: what averaging may take of the line.
    """
    return SwarmOptimizer(
        run=run, dht=dht, identity=identity, parameters=parameters, holds_state=holds_state, gate=gate, caps=caps
    )
