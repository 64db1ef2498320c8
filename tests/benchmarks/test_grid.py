"""What the grid of sizes and learning rates makes of its options, and which cell it shows as the best."""

import io

import pytest
from rich.console import Console

from benchmarks.learning.grid import Cell, rate_of, schedule, shape_of, table
from benchmarks.learning.learner import Curve, Point
from swarm.errors import SahajError
from swarm.run_file import ModelSection, OptimizerSection


def cell(size: str, rate: float, loss: float) -> Cell:
    curve = Curve((Point(0, 9.0), Point(320, loss)), optimizer_seconds=0.0)
    return Cell(size, rate, 1, 1.0, loss, 7.0 - loss, curve)


def test_a_size_is_a_shape_that_a_run_may_have():
    shape = ModelSection.model_validate(shape_of(" 256x6"))
    assert (shape.hidden_size, shape.num_hidden_layers, shape.intermediate_size) == (256, 6, 1024)


@pytest.mark.parametrize("steps", [2, 8, 1500])
def test_the_warm_up_ends_before_the_run(steps: int):
    assert OptimizerSection.model_validate(schedule(steps, 0.008)).warmup_steps < steps


@pytest.mark.parametrize("size", ["256", "x", "0x2", "100x2", "256x0", "-64x2"])
def test_a_size_that_is_none_is_told(size: str):
    with pytest.raises(SahajError, match=r"--sizes .*: give width x layers"):
        shape_of(size)


@pytest.mark.parametrize("rate", ["fast", "0", "-1", "nan", "2"])
def test_a_rate_that_is_none_is_told(rate: str):
    with pytest.raises(SahajError, match=r"--rates .*: give numbers between 0 and 1"):
        rate_of(rate)


def test_the_best_cell_stands_out():
    cells = [cell("128x2", 0.004, 6.5), cell("128x2", 0.008, 6.1), cell("256x2", 0.004, 6.3), cell("256x2", 0.008, 6.4)]
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    console.print(table(cells))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "\x1b[1m6.100" in shown
    assert "\x1b[1m6.3" not in shown
