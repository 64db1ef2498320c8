"""The command line itself: it answers at once, and imports what a command needs only when it runs."""

import json
import os
import resource
import statistics
import subprocess
import sys

import pytest

from app.join.problems import ProblemKind
from swarm.language import VARIABLE
from tests.support.waiting import PATIENCE

HEAVY = ("torch", "transformers", "hivemind", "datasets", "sqlalchemy", "numpy")
LIMIT = 1.0  # seconds; half of it where nothing else runs
COMMANDS = (
    ["--help"],
    ["coordinator", "--help"],
    ["tokenizer", "train", "-h"],
    ["demo", "-h"],
    ["finetune", "-h"],
    ["service", "install", "-h"],
)


@pytest.mark.faults
def test_help_answers_at_once():
    taken = []
    for _ in range(5):
        began = _processor_seconds_of_children()
        subprocess.run([sys.executable, "-m", "app.cli", "--help"], check=True, capture_output=True)
        taken.append(_processor_seconds_of_children() - began)
    assert statistics.median(taken) < LIMIT, taken


def _processor_seconds_of_children() -> float:
    """What does not depend on who else uses the machine."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_help_imports_nothing_heavy(arguments: list[str]):
    code = (
        "import json, sys; from app.cli import main; sys.argv = ['sahaj', *json.loads(sys.argv[1])]\n"
        "try: main()\n"
        "except SystemExit as end: status = end.code\n"
        "print(json.dumps([status, sorted({name.split('.')[0] for name in sys.modules})]), file=sys.stderr)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, json.dumps(arguments)], check=True, capture_output=True, text=True, env=os.environ
    )
    status, imported = json.loads(told.stderr)
    assert not status
    assert "Usage" in told.stdout
    assert not set(HEAVY) & set(imported)


@pytest.mark.parametrize("module", ["app.join.join", "app.doctor.examination", "app.leave"])
def test_what_is_said_first_waits_for_no_large_library_and_for_no_broken_one(module: str):
    code = f"import sys, {module}; print(*{{name.split('.')[0] for name in sys.modules}})"
    imported = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not set(HEAVY) & set(imported)


@pytest.mark.parametrize(
    "arguments", [["--nonsense"], ["joyn"], ["admin", "a.org"], ["demo", "--trainers", "1"], ["finetune", "poetry"]]
)
def test_a_mistyped_command_is_explained(arguments: list[str]):
    told = subprocess.run(
        [sys.executable, "-m", "app.cli", *arguments], check=False, capture_output=True, text=True, timeout=PATIENCE
    )
    assert told.returncode == 2
    assert "Traceback" not in told.stderr
    assert "Usage" in told.stderr


@pytest.mark.parametrize("command", ["join", "host-experts", "service install", "me", "team", "leave"])
def test_without_a_link_volunteers_read_one_line_in_their_language_about_links(command: str):
    told = subprocess.run(
        [sys.executable, "-m", "app.cli", *command.split()],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=os.environ | {VARIABLE: "bn"},
    )
    assert told.returncode == (1 if command == "leave" else ProblemKind.BAD_URL)
    assert "প্রশিক্ষণের লিংক" in told.stderr and told.stderr.count("\n") == 1
