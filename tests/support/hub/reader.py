"""Somebody who knows the name of a repository, and has neither a token nor anything of ours."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.waiting import PATIENCE


def read_from_hub(program: str, home: Path) -> str:
    """Run a Python program whose cache of the Hub is in `home`; returns what it prints, after it ended well."""
    environment = {name: value for name, value in os.environ.items() if name != "HF_TOKEN"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment | {"HF_HOME": str(home), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
