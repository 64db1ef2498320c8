"""Courses of a run with faults keep the invariants of the log; `python -m benchmarks.simulation` runs more of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.course import run

CHUNK = 10  # seeds in a test
LAST = 200  # seed
FOUND = (1703,)  # seeds that once broke an invariant


@pytest.mark.parametrize("first", range(1, LAST + 1, CHUNK))
def test_no_invariant_breaks(first: int) -> None:
    for seed in range(first, first + CHUNK):
        course = run(seed)
        assert not course.violation, f"seed {seed}, {course.seconds:.1f} s: {course.violation}"
        assert course.commits > 2


@pytest.mark.parametrize("seed", FOUND)
def test_no_invariant_breaks_again(seed: int) -> None:
    assert not run(seed).violation


def test_a_seed_is_the_same_course_each_time_and_in_each_process() -> None:
    here, root = run(4), Path(__file__).parents[2]
    assert run(4) == here
    program = "from tests.simulation.course import run; print(run(4).trace)"
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", program]
        other = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=root)
        assert other.stdout.strip() == here.trace


def test_seeds_are_different_courses() -> None:
    assert run(4).trace != run(8).trace
