"""The size of a model that has not been built."""

from pathlib import Path

import pytest

from swarm.run_file import load_run, parse_run
from trainer.model_size import sample_flops, tensor_sizes


def test_albert_large_has_18_million_parameters():
    large = parse_run({"name": "large", "data": {"train": [{"hub": "a/b"}]}}, Path("run.yaml"))
    assert sum(tensor_sizes(large)) == pytest.approx(17.9e6, rel=0.03)


def test_a_sample_of_albert_large_costs_what_torch_counts():
    """`benchmarks.gpu` counts 0.985 TFLOP."""
    run = load_run(Path(__file__).parents[2] / "runs" / "bengali.yaml")
    assert sample_flops(run) == pytest.approx(0.985e12, rel=0.005)
