"""A coordinator's loop in a thread, over a swarm that does what a test says."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from coordinator.checkpoints.checkpoint import Checkpoint, list_checkpoints
from coordinator.evaluation.evaluator import Evaluator
from coordinator.evaluation.held_out import held_out_batches
from coordinator.evaluation.unigram import UnigramBaseline
from coordinator.ledger.ledger import Ledger
from coordinator.main_loop import CoordinatorLoop
from coordinator.release.uploader import Releaser
from coordinator.replica import Snapshot
from coordinator.run_context import RunContext
from coordinator.tracking.tracker import Tracker
from coordinator.webhooks.news import News
from swarm.leaving import Asked
from swarm.run_file import RunFile
from tests.coordinator.release.conftest import OURS, SENTENCES
from tests.support.waiting import PATIENCE, wait_until
from trainer.data import Batch
from trainer.model import PretrainingModel, build_model


@dataclass
class Swarm:
    """What the loop sees of a swarm: a global step and a state, no sessions and no problems."""

    model: PretrainingModel
    step: int = 0
    worries: list[int] = field(default_factory=list)
    abandoned: tuple[int, ...] = ()
    is_proposed: bool = False  # a rollback
    is_restored: bool = False  # by one
    has_stopped: threading.Event = field(default_factory=threading.Event)
    folder: Path = Path()  # of its checkpoints

    def __post_init__(self) -> None:
        self.has_stopped.set()

    def snapshot(self) -> Snapshot:
        """The newest state."""
        state = {name: one.detach() + float(self.step) for name, one in self.model.named_parameters()}
        return Snapshot(self.step, state, {"state": {0: {"exp_avg": torch.ones(4)}}})

    def restored(self) -> Snapshot | None:
        """The swarm has not gone back."""
        return None

    def checkpoints(self) -> list[Checkpoint]:
        """Those from which the swarm has not gone back."""
        return [one for one in list_checkpoints(self.folder) if one.step not in self.abandoned]

    def goals(self) -> frozenset[Path]:
        """The swarm has gone back to nothing."""
        return frozenset()

    def bring_up_to_date(self, *, final: bool = False) -> int:
        """There are no sessions."""
        return 0

    def follow_order(self) -> None:
        """There is none."""

    def needs_evaluation(self, step: int) -> bool:
        """No."""
        return False


@dataclass
class Running:
    """A coordinator's loop in a thread, over a swarm that does what the test says."""

    context: RunContext
    swarm: Any
    tokenizer: PreTrainedTokenizerFast
    held_out: list[Batch] = field(default_factory=list)
    releaser: Releaser | None = None
    experts: Any = None
    told: list[str] = field(default_factory=list)  # to webhooks

    def __post_init__(self) -> None:
        context, tracker, stop = self.context, Tracker(), Asked()
        run = context.run
        self.swarm.folder = context.checkpoints
        self.baseline = UnigramBaseline(run, self.tokenizer, self.held_out, context.say, stop)
        model = build_model(run, self.tokenizer)
        evaluator = Evaluator(context, model, self.tokenizer, self.held_out, [], self.baseline, tracker)
        swarm = self.swarm
        release, experts = self.releaser, self.experts
        loop = CoordinatorLoop(
            context,
            swarm,
            swarm,
            evaluator,
            swarm,
            tracker,
            release,
            experts,
            experts.pending if experts else frozenset(),
            stop,
            news=News(run, self.told.append, step=swarm.step),
            evaluated=-1,
            saved=-1,
        )
        self.stop, self.thread = stop, threading.Thread(target=loop.work)

    def __enter__(self) -> "Running":
        self.thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop.set()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


def wait_for(said: list[str], what: str) -> None:
    """Until a line with these words was said."""
    wait_until(lambda: any(what in line for line in said), lambda: f"{what!r} in {said}")


def evaluated_at_each_step(
    run: RunFile, ledger: Ledger, tokenizer: PreTrainedTokenizerFast, folder: Path, said: list[str]
) -> tuple[RunContext, Any, list[Batch]]:
    """A run that is saved at each step, too; the swarm that it is of, after one step; and held-out text."""
    settings = run.coordinator.model_copy(update={"evaluate_every": 1, "checkpoint_every": 1})
    run = run.model_copy(update={"coordinator": settings})
    swarm: Any = Swarm(build_model(run, tokenizer), step=1)
    swarm.roll_back_if_bad = lambda loss: False
    held_out = held_out_batches(run, [" ".join(SENTENCES)] * 20, tokenizer, 4)
    return RunContext(run, OURS, folder, ledger, said.append), swarm, held_out
