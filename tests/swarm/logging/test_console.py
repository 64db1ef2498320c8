"""What a human sees, and what the log has: the program's own words on the one, the rest in the other."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.waiting import PATIENCE
from tests.swarm.logging.conftest import lines, messages

HIVEMIND = """
import logging, sys
from pathlib import Path
from swarm.logging import logs

logs.start(logs.Level(sys.argv[2]), verbose=sys.argv[3] == "verbose")
from hivemind.utils import get_logger
from hivemind.utils.logging import loglevel

logs.write_to(Path(sys.argv[1]), "trainer")
logs.capture_hivemind()
try:
    raise TimeoutError
except TimeoutError as error:
    get_logger("hivemind.averaging.averager").exception(error)
get_logger("hivemind.averaging.averager").info("Downloading parameters")
logging.getLogger("asyncio").error("something strange")
logging.getLogger("httpx").info("GET https://somewhere/?signature=1")
logging.getLogger("averaging.shell.replay").warning("a state did not arrive in time")
logging.getLogger("coordinator.ledger.ledger").warning("an impossible report\\nof somebody")
logging.getLogger("coordinator.ledger.ledger").warning("an impossible report\\nof somebody")
"""

FAILING = """
import sys
import swarm.run_file
from app import cli

def fail(path):
    {failure}

swarm.run_file.load_run = fail
cli.main()
"""


def run(code: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=PATIENCE, env=os.environ | dict(environment)
    )


def test_what_hivemind_says_is_in_the_log_and_not_on_the_console(tmp_path: Path) -> None:
    told = run(HIVEMIND, tmp_path, "info", "quiet")
    assert told.returncode == 0
    assert (told.stdout, told.stderr) == ("", "an impossible report of somebody\n"), "the coordinator's words, once"
    logged = lines(tmp_path / "trainer.jsonl")
    assert [line["message"] for line in logged] == [
        "the log begins, at level info",
        "TimeoutError()",
        "Downloading parameters",
        "something strange",
        "a state did not arrive in time",
        "an impossible report\nof somebody",
        "an impossible report\nof somebody",
    ]
    assert "Traceback" in logged[1]["exception"] and logged[1]["level"] == "ERROR"


def test_the_level_is_for_hivemind_too(tmp_path: Path) -> None:
    run(HIVEMIND, tmp_path, "error", "quiet")
    assert messages(tmp_path / "trainer.jsonl") == ["TimeoutError()", "something strange"]


def test_verbose_shows_what_hivemind_says(tmp_path: Path) -> None:
    told = run(HIVEMIND, tmp_path, "info", "verbose").stderr
    assert "Downloading parameters" in told and "Traceback" in told
    assert "httpx" not in told


def test_an_unforeseen_error_is_one_line_and_the_log_has_the_whole_story(tmp_path: Path) -> None:
    failing = FAILING.format(failure="raise ZeroDivisionError('hf_AbCdEf012345 by nothing')")
    told = run(failing, "coordinator", "run.yaml", XDG_CACHE_HOME=str(tmp_path))
    assert told.returncode == 1
    (line,) = told.stderr.splitlines()
    log = tmp_path / "sahaj" / "logs" / "sahaj.jsonl"
    assert "ZeroDivisionError: hf_... by nothing" in line and line.endswith(str(log))
    last = lines(log)[-1]
    assert last["level"] == "CRITICAL"
    assert last["exception"].startswith("Traceback") and "in fail" in last["exception"]
    assert "AbCdEf" not in log.read_text()


def test_an_unforeseen_error_is_shown_whole_if_one_wants_it_or_it_can_be_kept_nowhere(tmp_path: Path) -> None:
    failing = FAILING.format(failure="raise ZeroDivisionError('by nothing')")
    verbose = run(failing, "coordinator", "run.yaml", "--verbose", XDG_CACHE_HOME=str(tmp_path))
    obstacle = tmp_path / "file"
    obstacle.write_text("")
    homeless = run(failing, "coordinator", "run.yaml", XDG_CACHE_HOME=str(obstacle))
    for told in (verbose, homeless):
        assert told.returncode == 1
        assert told.stderr.count("Traceback") == 1 and "sahaj: the program has failed" in told.stderr


def test_a_thread_that_fails_is_one_line(tmp_path: Path) -> None:
    failure = (
        "import threading; t = threading.Thread(target=lambda: 1 / 0, name='renewal'); t.start(); t.join(); sys.exit(7)"
    )
    told = run(FAILING.format(failure=failure), "coordinator", "run.yaml", XDG_CACHE_HOME=str(tmp_path))
    assert told.returncode == 7
    (line,) = told.stderr.splitlines()
    assert "renewal" in line and "ZeroDivisionError" in line
    assert "Traceback" in lines(tmp_path / "sahaj" / "logs" / "sahaj.jsonl")[-1]["exception"]


def test_an_error_that_a_thread_of_a_library_survives_is_not_on_the_console(tmp_path: Path) -> None:
    """As multiprocessing tells it when a process is killed while it asks for a connection."""
    failure = (
        "import threading; from swarm.logging import logs; logs.write_to(path.parent, 'coordinator'); "
        "t = threading.Thread(target=lambda: sys.excepthook(EOFError, EOFError('killed'), None)); "
        "t.start(); t.join(); sys.exit(7)"
    )
    told = run(FAILING.format(failure=failure), "coordinator", tmp_path / "run.yaml")
    assert (told.returncode, told.stderr) == (7, "")
    assert "killed" in lines(tmp_path / "coordinator.jsonl")[-1]["exception"]


def test_no_name_from_outside_breaks_a_console_that_cannot_show_it(tmp_path: Path) -> None:
    failure = "cli._say('আশা joins'); sys.exit(7)"
    told = run(FAILING.format(failure=failure), "coordinator", tmp_path / "run.yaml", PYTHONIOENCODING="latin-1")
    assert (told.returncode, told.stdout, told.stderr) == (7, "??? joins\n", "")


def test_a_level_that_there_is_not_is_explained() -> None:
    told = run("from app import cli; cli.main()", "join", "http://127.0.0.1:1", "--log-level", "loud")
    assert told.returncode == 2 and "'loud' is not one of" in told.stderr
