"""A low priority, and only some of the cores: of a process of its own, for a test cannot go back."""

import json
import subprocess
import sys

import psutil
import pytest

from trainer.pausing.processor import LEAST_OF_DISK, NICE

CODE = """
import json, psutil, subprocess, sys
from trainer.pausing.processor import have_low_priority, use_cores
have_low_priority()
use_cores(1)
child = "import json, psutil; one = psutil.Process(); print(json.dumps([one.nice(), one.ionice(), one.cpu_affinity()]))"
print(subprocess.run([sys.executable, "-c", child], check=True, capture_output=True, text=True).stdout)
"""


@pytest.mark.skipif(not psutil.LINUX, reason="macOS has neither cores to choose nor classes of disk access")
def test_helpers_take_little_too() -> None:
    told = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True).stdout
    nice, disk, cores = json.loads(told)
    assert nice == max(NICE, psutil.Process().nice())
    assert disk == [psutil.IOPRIO_CLASS_BE, LEAST_OF_DISK]
    assert cores == [max(psutil.Process().cpu_affinity())]
