"""A real process with secrets in its environment: what it, a fork of it and a program started by it show of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from swarm.secret_variables import NAMES

SECRETS = {name: f"secret-of-{name}" for name in NAMES}
PROGRAM = """
import os, subprocess
from swarm.secret_variables import hide_secrets, secret

hide_secrets()
hide_secrets()
assert secret("HF_TOKEN") == "secret-of-HF_TOKEN" and secret("WANDB_API_KEY") == "secret-of-WANDB_API_KEY"
if os.fork() == 0:
    print(open("/proc/self/environ").read(), flush=True)
    os._exit(0)
os.wait()
print(open("/proc/self/environ").read(), flush=True)
subprocess.run(["env"], check=True)
subprocess.run(["env"], env=dict(os.environ), check=True)
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="this system does not show environments there")
def test_neither_a_fork_nor_a_started_program_shows_a_secret():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **SECRETS, "OTHER": "stays", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("OTHER=stays") == 4
    assert "secret-of" not in done.stdout
