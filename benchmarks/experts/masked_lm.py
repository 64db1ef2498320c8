"""Masked LM at the demo's size: experts at the last layer, on the rows that the heads read, against a dense term.

All models see the same samples of `runs/demo.yaml`, begin as its coordinator begins, and take the same steps: more than
the demo's, and at a lower rate, because in few steps it is the trunk alone that learns. With experts the model is that
of `sahaj demo --experts 16`. Experts take their own steps, late, on the run's schedule, and all of them are off in 15 %
of the micro-batches. The dense term has the compute of a row's experts, and is trained by the run's optimizer as the
trunk is.
"""

import itertools
import multiprocessing
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from app.demo.demo import DEFAULT_RUN
from app.demo.experts import experts_section
from averaging.optimizers.schedule import schedule_factor
from benchmarks.experts.convergence import DenseTerm
from benchmarks.learning.__main__ import Text, prepared, with_changes
from benchmarks.learning.learner import HeldOut, begun, learn, our_batches
from experts.calls import NoExperts
from experts.expert import new_expert
from experts.grid import all_uids
from experts.layer.local import LocalExperts
from swarm.run_file import ExpertsSection, RunFile
from trainer.model import PretrainingModel

EXPERTS = ExpertsSection(**experts_section(16))
DELAY = 16  # backward calls
FAILURES = 0.1
OPTIMIZER = {"total_steps": 800, "warmup_steps": 40, "learning_rate": 1.2e-2, "weight_decay": 0.1}


@dataclass(frozen=True)
class Outcome:
    """Held-out losses of masked tokens at the end, in nats."""

    loss: float
    trunk_alone: float


class AddedTerm:
    """Adds a dense term to the last feed-forward block of a model, on the rows that the heads read.

    The layers of ALBERT share their weights. In the last one the feed-forward block is given rows in
    place of samples.
    """

    def __init__(self, model: PretrainingModel, term: nn.Module):
        self.is_on = True
        self._term, self._rows = term, torch.empty(0)
        model.add_module("term", term)
        layer: Any = model.get_submodule("albert.encoder.albert_layer_groups.0.albert_layers.0")
        layer.ffn.register_forward_pre_hook(self._note_rows)
        layer.ffn_output.register_forward_hook(self._add)

    def _note_rows(self, _: nn.Module, inputs: tuple[Tensor]) -> None:
        (self._rows,) = inputs

    def _add(self, _: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        if not self.is_on or self._rows.dim() != 2:
            return output
        added: Tensor = self._term(self._rows).added
        return output + added


def plain(run: RunFile, seed: int, held_out: HeldOut) -> Outcome:
    """The model of the run."""
    loss = _trained(run, begun(run), seed, held_out)
    return Outcome(loss, loss)


def dense(run: RunFile, seed: int, held_out: HeldOut) -> Outcome:
    """With a term of the compute of a row's experts."""
    model = begun(run)
    torch.manual_seed(seed)
    hidden = EXPERTS.experts_of_a_row * EXPERTS.hidden
    added = AddedTerm(model, DenseTerm(run.model.hidden_size, EXPERTS.width, hidden))
    loss = _trained(run, model, seed, held_out)
    added.is_on = False
    return Outcome(loss, held_out.loss(model))


def with_experts(run: RunFile, seed: int, held_out: HeldOut, failures: float = 0.0) -> Outcome:
    """With experts, so many calls to which fail."""
    torch.manual_seed(seed)
    model = begun(run.model_copy(update={"experts": EXPERTS}))
    assert model.expert_term is not None
    uids = all_uids(tuple(EXPERTS.grid))
    experts = {uid: new_expert(EXPERTS.width, EXPERTS.hidden, 1000 * seed + at) for at, uid in enumerate(uids)}
    caller = LocalExperts(experts, learning_rate=EXPERTS.learning_rate, delay=DELAY, failures=failures, seed=seed)
    model.expert_term.mixture.caller = caller

    def follow_schedule(step: int) -> None:  # as experts on hosts do
        caller.schedule_factor = schedule_factor(run.optimizer, step)

    loss = _trained(run, model, seed, held_out, begins=follow_schedule)
    model.expert_term.mixture.caller = NoExperts()
    return Outcome(loss, held_out.loss(model))


SIDES: dict[str, Callable[[RunFile, int, HeldOut], Outcome]] = {
    "no term": plain,
    "dense": dense,
    "16 experts": with_experts,
    "16 experts, failing": partial(with_experts, failures=FAILURES),
}


def measure(corpus: Path | None, seeds: int, processes: int, see: Callable[[str], None]) -> dict[str, list[Outcome]]:
    """The outcomes of all sides, one for each seed.

    Args:
        processes: models that are trained at a time.
    """
    found: dict[str, list[Outcome]] = {side: [] for side in SIDES}
    with (
        tempfile.TemporaryDirectory(prefix="sahaj-experts-") as folder,
        multiprocessing.get_context("spawn").Pool(processes, torch.set_num_threads, (1,)) as pool,
    ):
        run = prepared(Text(DEFAULT_RUN, corpus, stock_steps=0), Path(folder))
        run = with_changes(run, {"optimizer": OPTIMIZER})
        asked = [(run, side, seed) for seed, side in itertools.product(range(seeds), SIDES)]
        for (_, side, seed), outcome in zip(asked, pool.imap(outcome_of, asked), strict=True):
            found[side].append(outcome)
            see(f"masked LM, seed {seed}, {side}: {outcome.loss:.3f} nats, trunk alone {outcome.trunk_alone:.3f}")
    return found


def outcome_of(asked: tuple[RunFile, str, int]) -> Outcome:
    """Train a model of one side with one seed."""
    run, side, seed = asked
    return SIDES[side](with_changes(run, {"model": {"seed": seed}}), seed, HeldOut(run))


def _trained(
    run: RunFile,
    model: PretrainingModel,
    seed: int,
    held_out: HeldOut,
    begins: Callable[[int], None] = lambda step: None,
) -> float:
    return learn(run, model, our_batches(run, seed), held_out, run.optimizer.total_steps, begins=begins).end.loss
