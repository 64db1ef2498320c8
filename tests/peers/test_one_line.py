"""The line on a machine without the program: it becomes a peer of an open run, and `sahaj leave` takes all of it back.

uv has a stand-in that installs the coordinator's wheel beside the packages that the tests have; `benchmarks/joining.py`
installs them from their indexes.
"""

import os
import shutil
import signal
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from app.demo.peers import Peer
from coordinator.join_script.script import one_line
from tests.coordinator.join_script.conftest import give_uv
from tests.support.small_swarm import MICRO_BATCH, SmallSwarm, text_of
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.swarm


def is_there(group: int) -> bool:
    """Whether a process of a group is."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_line_leads_to_a_credited_sample_without_a_question(small_swarm: Callable[..., SmallSwarm], tmp_path: Path):
    if not shutil.which("curl"):
        pytest.skip("curl is not installed")
    swarm = small_swarm(target_batch_size=1024)
    home, log = tmp_path / "home", tmp_path / "logs" / "line.log"
    give_uv(tmp_path / "bin")
    environment = {
        "PATH": f"{tmp_path / 'bin'}:{os.defpath}",
        "HOME": str(tmp_path),
        "SAHAJ_HOME": str(home),
        "SAHAJ_NAME": "Asha",
        "UV_LOG": str(tmp_path / "uv.log"),
        "UV_PACKAGES": sysconfig.get_path("purelib"),
        "OMP_NUM_THREADS": "1",
    }
    line = f"trap : INT; {one_line(swarm.url)} -s -- --micro-batch {MICRO_BATCH}"
    with log.open("w") as out:
        process = subprocess.Popen(
            ["sh", "-c", line],  # a shell that outlives Ctrl-C, as at a terminal
            cwd=tmp_path,  # and not where the project's own packages are
            env=environment,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    volunteer = Peer("volunteer", process, log)
    swarm.peers.append(volunteer)
    swarm.wait_for_step(1)
    swarm.wait(lambda: [session.user for session in swarm.ledger.sessions()] == ["~Asha"], "a session in the ledger")

    leave = [str(home / "commands" / "sahaj"), "leave", swarm.url, "--yes"]
    refused = subprocess.run(leave, env=environment, check=False, capture_output=True, text=True)
    assert refused.returncode == 1 and "a peer runs there" in refused.stderr
    os.killpg(process.pid, signal.SIGINT)
    volunteer.end(PATIENCE)  # its status is that of the shell, which may take the signal for its own end
    swarm.wait(lambda: not is_there(process.pid), "the end of all that the line has started")
    assert "Thank you!" in text_of(volunteer)
    left = subprocess.run(leave, env=environment, check=True, capture_output=True, text=True)
    assert left.stdout.splitlines()[-1].startswith("Removed 2 folders") and not home.exists()
