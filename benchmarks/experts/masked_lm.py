"""Masked LM at the demo's size: experts at the last layer, on the rows that the heads read, against a dense term.

All models see the same samples of `runs/demo.yaml`, begin as its coordinator begins, and take the same steps. The dense
term has the compute of a row's experts, and is trained by the run's optimizer as the trunk is. Experts take their own
steps, late, and all of them are off in 15 % of the micro-batches.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from app.demo.demo import DEFAULT_RUN
from benchmarks.experts.convergence import DenseTerm
from benchmarks.learning.__main__ import Text, prepared, with_changes
from benchmarks.learning.learner import HeldOut, begun, learn, our_batches
from experts.expert import new_expert
from experts.grid import Grid, all_uids
from experts.layer.local import LocalExperts, LossyNetwork
from experts.layer.mixture import Mixture, MixtureOfExperts
from swarm.run_file import RunFile
from trainer.model import PretrainingModel
from trainer.models.losses import Losses

GRID: Grid = (4, 4)
ACTIVE, WIDTH, HIDDEN = 2, 64, 256  # experts of a row, width of what travels, hidden width of one expert
DELAY = 16  # backward calls
FAILURES = 0.1
LEARNING_RATE = 1e-3  # of the experts; with 3e-3 they fit single batches, and the held-out loss is higher
BALANCE = 0.01  # weight of the balancing loss


@dataclass(frozen=True)
class Outcome:
    """Held-out losses of masked tokens at the end, in nats."""

    loss: float
    trunk_alone: float


class AddedTerm:
    """Adds a term to the last feed-forward block of a model: `FFN(x) + term(x)`, on the rows that the heads read.

    The layers of ALBERT share their weights. In the last one the feed-forward block is given rows in
    place of samples.
    """

    def __init__(self, model: PretrainingModel, term: nn.Module):
        self.is_on = True
        self._term, self._rows, self._balance = term, torch.empty(0), torch.zeros(())
        model.add_module("term", term)
        layer: Any = model.get_submodule("albert.encoder.albert_layer_groups.0.albert_layers.0")
        layer.ffn.register_forward_pre_hook(self._note_rows)
        layer.ffn_output.register_forward_hook(self._add)
        model.register_forward_hook(self._with_balance)

    def _note_rows(self, _: nn.Module, inputs: tuple[Tensor]) -> None:
        (self._rows,) = inputs

    def _add(self, _: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        if not self.is_on or self._rows.dim() != 2:
            return output
        mixture: Mixture = self._term(self._rows)
        self._balance = mixture.balancing_loss
        return output + mixture.added

    def _with_balance(self, model: nn.Module, inputs: tuple[Any], losses: Losses) -> Losses:
        return losses._replace(loss=losses.loss + BALANCE * self._balance) if model.training else losses


def dense(run: RunFile, seed: int) -> nn.Module:
    """A term with the compute of a row's experts."""
    return DenseTerm(run.model.hidden_size, WIDTH, ACTIVE * HIDDEN)


def mixture(failures: float) -> Callable[[RunFile, int], nn.Module]:
    """Makes terms of which so many calls fail."""

    def made(run: RunFile, seed: int) -> nn.Module:
        experts = {uid: new_expert(WIDTH, HIDDEN, 1000 * seed + at) for at, uid in enumerate(all_uids(GRID))}
        network = LossyNetwork(failures, seed=seed)
        caller = LocalExperts(experts, learning_rate=LEARNING_RATE, delay=DELAY, network=network)
        return MixtureOfExperts(run.model.hidden_size, WIDTH, GRID, caller, experts_of_a_row=ACTIVE)

    return made


SIDES: dict[str, Callable[[RunFile, int], nn.Module] | None] = {
    "no term": None,
    "dense": dense,
    "16 experts": mixture(0.0),
    "16 experts, failing": mixture(FAILURES),
}


def measure(corpus: Path | None, seeds: int, see: Callable[[str], None]) -> dict[str, list[Outcome]]:
    """The outcomes of all sides, one for each seed."""
    found: dict[str, list[Outcome]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory(prefix="sahaj-experts-") as folder:
        run = prepared(Text(DEFAULT_RUN, corpus, stock_steps=0), Path(folder))
        held_out = HeldOut(run)
        for seed in range(seeds):
            for side in SIDES:
                found[side].append(outcome(run, side, seed, held_out))
                see(f"masked LM, {side}: {found[side][-1].loss:.3f} nats")
    return found


def outcome(run: RunFile, side: str, seed: int, held_out: HeldOut) -> Outcome:
    """Train a model of one side."""
    run = with_changes(run, {"model": {"seed": seed}})
    model, make = begun(run), SIDES[side]
    if make is None:
        loss = _trained(run, model, seed, held_out)
        return Outcome(loss, loss)
    torch.manual_seed(seed)
    added = AddedTerm(model, make(run, seed))
    loss = _trained(run, model, seed, held_out)
    added.is_on = False
    return Outcome(loss, held_out.loss(model))


def _trained(run: RunFile, model: PretrainingModel, seed: int, held_out: HeldOut) -> float:
    return learn(run, model, our_batches(run, seed), held_out, run.optimizer.total_steps).end.loss
