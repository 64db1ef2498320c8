"""The size of a model that has not been built."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedTokenizerFast

from swarm.run_file import RunFile, load_run, parse_run
from trainer.data.batch import Collator
from trainer.model import build_model
from trainer.model_size import sample_flops, tensor_sizes


def test_albert_large_has_18_million_parameters():
    large = parse_run({"name": "large", "data": {"train": [{"hub": "a/b"}]}}, Path("run.yaml"))
    assert sum(tensor_sizes(large)) == pytest.approx(17.9e6, rel=0.03)


def test_a_sample_of_albert_large_costs_what_torch_counts():
    """`benchmarks.gpu` counts 0.985 TFLOP."""
    run = load_run(Path(__file__).parents[2] / "runs" / "bengali.yaml")
    assert sample_flops(run) == pytest.approx(0.985e12, rel=0.005)


def test_a_model_has_the_tensors_that_are_foretold(either: RunFile, tokenizer: PreTrainedTokenizerFast):
    vocabulary = either.tokenizer.model_copy(update={"vocab_size": len(tokenizer)})
    sizes = tensor_sizes(either.model_copy(update={"tokenizer": vocabulary}))
    assert sorted(sizes) == sorted(one.numel() for one in build_model(either, tokenizer).parameters())


def test_a_sample_costs_what_torch_counts(either: RunFile, tokenizer: PreTrainedTokenizerFast):
    meta, samples = torch.device("meta"), 64
    model: Any = build_model(either, tokenizer)
    model.to(meta)
    model.set_attn_implementation("eager")  # products that are counted one by one
    batch = Collator(tokenizer, either.data).longest(samples)
    with FlopCounterMode(display=False) as counter:
        model(batch.to(meta)).loss.backward()
    # special tokens are never masked, and labels are padded
    assert sample_flops(either) == pytest.approx(counter.get_total_flops() / samples, rel=0.03)
