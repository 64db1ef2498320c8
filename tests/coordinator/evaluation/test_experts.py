"""The held-out loss in a run with experts: that of the trunk alone is recorded, that with experts is said beside it."""

import math
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from coordinator.evaluation.evaluator import Evaluator
from coordinator.evaluation.unigram import UnigramBaseline
from coordinator.ledger.ledger import open_ledger
from coordinator.replica import Snapshot
from coordinator.run_context import RunContext
from coordinator.tracking.tracker import Tracker
from experts.expert import new_expert
from experts.grid import Uid, all_uids
from experts.layer.local import LocalExperts
from experts.remote.remote_experts import CallCounts
from swarm.leaving import Asked
from swarm.run_file import ExpertsSection, RunFile
from swarm.run_file.fingerprint import Fingerprint
from trainer.data import Batch
from trainer.model import build_model

SAID = re.compile(r"held-out loss ([\d.]+)(?:, ([\d.]+) with experts)?, sentence order")


class Counted(LocalExperts):
    """Some of which do not answer."""

    silent: Collection[Uid] = ()
    counts = CallCounts()

    def forward(self, inputs: Mapping[Uid, Tensor]) -> dict[Uid, Tensor]:
        answers = super().forward({uid: rows for uid, rows in inputs.items() if uid not in self.silent})
        self.counts.asked += len(inputs)
        self.counts.answered += len(answers)
        return answers


def test_both_are_said_and_the_trunk_alone_is_recorded(
    run: RunFile,
    tokenizer: PreTrainedTokenizerFast,
    batches: list[Batch],
    tmp_path: Path,
) -> None:
    run = run.model_copy(update={"experts": ExpertsSection(grid=[2, 2], width=4, hidden=8)})
    model = build_model(run, tokenizer)
    state = {name: one.detach().clone() for name, one in model.named_parameters()}
    torch.nn.init.normal_(state["expert_term.mixture.up.weight"], generator=torch.Generator().manual_seed(0))
    caller = Counted({uid: new_expert(4, 8, seed) for seed, uid in enumerate(all_uids((2, 2)))})
    reached: Any = SimpleNamespace(caller=caller)
    said: list[str] = []
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    try:
        context = RunContext(run, Fingerprint(()), tmp_path, ledger, said.append)
        baseline = UnigramBaseline(run, tokenizer, batches, said.append, Asked())
        evaluator = Evaluator(context, model, tokenizer, batches, [], baseline, Tracker(), reached)
        evaluator.evaluate(Snapshot(5, state, {}), lambda: True)
        caller.silent = {(0, 0)}
        evaluator.evaluate(Snapshot(8, state, {}), lambda: True)
        caller.silent = set()
        up = "expert_term.mixture.up.weight"
        overflows = {**state, up: torch.full_like(state[up], 3e38)}
        evaluator.evaluate(Snapshot(9, overflows, {}), lambda: True)
        caller.lose(list(caller.alive()))
        evaluator.evaluate(Snapshot(6, state, {}), lambda: True)
        assert evaluator.evaluate(Snapshot(7, state, {}), lambda: False) is None
        alone = [one.loss for one in ledger.evaluations()]
        recorded = {one.step: one.loss_with_experts for one in ledger.evaluations()}
    finally:
        ledger.close()
    (first, with_experts), *others, (second, none) = (found.groups() for line in said if (found := SAID.search(line)))
    assert first == second == f"{alone[0]:.3f}"
    assert math.isclose(alone[0], alone[1])
    assert with_experts is not None and with_experts != first
    assert not any("nan" in line for line in said)
    assert none is None and all(one is None for _, one in others)
    assert f"{recorded.pop(5):.3f}" == with_experts
    assert recorded == {6: None, 8: None, 9: None}
    assert any(re.search(r"Only \d+ of \d+ calls of experts were answered", line) for line in said)
