"""Pieces and means are the same bytes on every machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__  # type: ignore[import-not-found]

from tests.averaging.reduce.same_bytes import digests


def test_they_are_what_they_were_on_the_first_machine():
    assert digests() == {
        "8bit": "d1dae6321a182a13",
        "float16": "4798d07914677c52",
        "none": "cd5ed1d7d62aa5b6",
        "8bit, scaled down": "cdecdcaeb4902153",
        "float16, scaled down": "8299fd33a88175df",
        "none, scaled down": "ceb53df6e11ffb31",
    }


def test_a_processor_without_vector_instructions_makes_the_same_bytes():
    features = " ".join(one for one in __cpu_dispatch__ if __cpu_features__[one])
    printed = subprocess.run(
        [sys.executable, "-m", "tests.averaging.reduce.same_bytes"],
        env=os.environ | {"NPY_DISABLE_CPU_FEATURES": features},
        cwd=Path(__file__).parents[3],
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(printed.stdout) == digests()
