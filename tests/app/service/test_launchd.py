"""The agent for a Mac, and what launchctl tells of it."""

import dataclasses
import plistlib
from pathlib import Path

from app.service.launchd import agent, folder_of, read_state
from app.service.service import State
from app.service.start_script import final_ends_as_success
from tests.app.service.test_systemd import ODD, RIVER

LOG = Path("/Users/asha/Library/Logs/sahaj-run.example.org.log")


def test_the_agent_of_a_run():
    assert plistlib.loads(agent(RIVER, LOG)) == {
        "Label": "sahaj-run.example.org",
        "ProgramArguments": ["/bin/sh", "-c", final_ends_as_success(RIVER.script, RIVER.final), "sahaj", *RIVER.words],
        "EnvironmentVariables": {"PATH": "/usr/bin:/bin", "SAHAJ_HOME": "/home/asha/.cache/sahaj"},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 60,
        "ExitTimeOut": 30,
        "StandardOutPath": str(LOG),
        "StandardErrorPath": str(LOG),
    }


def test_the_folder_is_read_back():
    odd = dataclasses.replace(ODD, words=(*ODD.words, "--state", str(ODD.folder), "--service"))
    assert folder_of(agent(odd, LOG)) == ODD.folder
    assert folder_of(agent(RIVER, LOG)) is folder_of(b"not a list") is None
    assert folder_of(b"<?xml version='1.0'?><plist>") is None


def test_what_launchctl_prints_is_understood():
    head = "gui/501/sahaj-run = {\n\tactive count = 1\n\tprogram = /bin/sh\n"
    assert read_state(f"{head}\tstate = running\n\tpid = 7\n\tlast exit code = 22\n}}") == State(runs=True)
    waiting = read_state(f"{head}\tstate = not running\n\tlast exit code = 22\n}}")
    assert waiting == State(runs=False, waits=True, status=22)
    ended = read_state(f"{head}\tstate = not running\n\tlast exit code = 0\n}}")
    assert ended == State(runs=False, status=0)
    assert read_state(f"{head}\tlast exit code = (never exited)\n}}") == State(runs=False)
