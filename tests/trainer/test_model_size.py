"""The size of a model that has not been built."""

from pathlib import Path

import pytest

from swarm.run_file import parse_run
from trainer.model_size import tensor_sizes


def test_albert_large_has_18_million_parameters():
    large = parse_run({"name": "large", "data": {"train": [{"hub": "a/b"}]}}, Path("run.yaml"))
    assert sum(tensor_sizes(large)) == pytest.approx(17.9e6, rel=0.03)
