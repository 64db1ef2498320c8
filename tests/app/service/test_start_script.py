"""The scripts that services run, in this machine's shell."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.service import start_script
from app.service.start_script import (
    AS_IT_IS,
    BY_JOIN_SCRIPT,
    by_hand,
    ended,
    final_ends_as_success,
    final_statuses,
)
from coordinator.join_script.script import script_for
from coordinator.notebook.wheel import Program

ODD = ["--name", "Asha $HOME 'q' \"w\" `date`", "", "a  b"]
ECHO = "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 7\n"
LEAVING = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
print("ready", flush=True)
signal.sigwait([signal.SIGTERM])
print("leaving", flush=True)
open("more").read()
sys.exit(5)
"""


@pytest.fixture
def curl(tmp_path: Path) -> Path:
    """A folder with a `curl` that prints the file `answer`, or fails with 28, which means something else to us."""
    (tmp_path / "curl").write_text(f'#!/bin/sh\necho "$@" >"{tmp_path}/asked"\ncat "{tmp_path}/answer" || exit 28\n')
    (tmp_path / "curl").chmod(0o755)
    return tmp_path


def started(folder: Path, script: str, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    command = ["/bin/sh", "-c", script, "sahaj", *words]
    environment = {"PATH": f"{folder}:/usr/bin:/bin", **variables}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment)


def test_the_script_of_the_run_gets_the_options_and_gives_the_status(curl: Path):
    (curl / "answer").write_text(ECHO)
    done = started(curl, BY_JOIN_SCRIPT, "https://run.example.org/join.sh", *ODD)
    assert (done.returncode, done.stdout) == (7, "".join(f"<{word}>" for word in ODD))
    assert (curl / "asked").read_text() == "-LsSf https://run.example.org/join.sh\n"


def test_the_join_script_of_a_coordinator_starts_what_it_has_installed(curl: Path):
    link = "https://run.example.org"
    program = Program("0.1.0", "one.whl", b"")
    script = script_for(link, program, run="little").decode()
    (curl / "answer").write_text(script)
    (folder,) = re.findall(r"FOLDER=(program-little-\w+)", script)
    home = curl / "home" / folder
    (home / "venv" / "bin").mkdir(parents=True)
    (home / "ready").write_text(program.sha256)
    for name in ("python", "sahaj"):
        (home / "venv" / "bin" / name).write_text(ECHO if name == "sahaj" else "#!/bin/sh\n")
        (home / "venv" / "bin" / name).chmod(0o755)
    done = started(curl, BY_JOIN_SCRIPT, f"{link}/join.sh", *ODD, SAHAJ_HOME=str(curl / "home"))
    words = ("join", link, *ODD)
    assert (done.returncode, done.stdout) == (7, "".join(f"<{word}>" for word in words)), done.stderr


@pytest.mark.parametrize(("answer", "status"), [(None, 22), ("", 25), ("<html>Log in to this network</html>", 25)])
def test_what_is_no_script_is_not_run_and_tried_again(curl: Path, answer: str | None, status: int):
    if answer is not None:
        (curl / "answer").write_text(answer)
    assert started(curl, BY_JOIN_SCRIPT, "https://run.example.org/join.sh").returncode == status
    assert status not in final_statuses(updates=True) and ended(status)


@pytest.mark.parametrize(("status", "told"), [(0, 0), (30, 0), (31, 31), (22, 22), (1, 1)])
def test_for_launchd_final_ends_are_success(tmp_path: Path, status: int, told: int):
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\nprintf '<%s>' \"$@\"\nexit {status}\n")
    program.chmod(0o755)
    script = final_ends_as_success(AS_IT_IS, final_statuses(updates=True))
    done = started(tmp_path, script, str(program), *ODD)
    assert (done.returncode, done.stdout) == (told, "".join(f"<{word}>" for word in ODD))


def test_for_launchd_the_program_gets_the_signal_and_may_take_its_time(tmp_path: Path):
    os.mkfifo(tmp_path / "more")
    script = final_ends_as_success(AS_IT_IS, final_statuses(updates=True))
    command = ["/bin/sh", "-c", script, "sahaj", sys.executable, "-c", LEAVING]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout and shell.stdout.readline() == "ready\n"
        shell.send_signal(signal.SIGTERM)
        assert shell.stdout.readline() == "leaving\n"
        assert shell.poll() is None
        (tmp_path / "more").write_text("\n")
    assert shell.returncode == 5


def test_ends_have_names():
    assert ended(30) == "banned" and ended(34) == "finished" and ended(1) == "exit status 1"


def test_what_to_type_is_the_program_that_is_installed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(start_script, "command", lambda: "/opt/my programs/sahaj")
    assert by_hand("https://run.example.org", ("--name", "Asha")) == (
        "nohup '/opt/my programs/sahaj' join https://run.example.org --name Asha &"
    )
