"""Builds the script with which a volunteer joins from a shell: `curl -LsSf LINK/join.sh | sh`."""

import hashlib
import shlex
from pathlib import Path

from coordinator.join_script.translation import translated
from coordinator.notebook.wheel import Program
from swarm.language import SOURCE, Language

SCRIPT = Path(__file__).with_name("join.sh")
CONSTRAINTS = Path(__file__).with_name("constraints.txt")  # in a checkout a link to the project's own
FILE_NAME = "join.sh"
EMPTY = "RUN='' LINK='' WHEEL='' SHA256='' FOLDER=''"
PREFIX = "program-"  # of the folders of installations


def script_for(url: str, program: Program, *, run: str, language: str = SOURCE) -> bytes:
    """The script of a run, which installs exactly this program.

    Args:
        url: the run's link.
        run: its name.
        language: code of the one in which it tells what it does.
    """
    folder = f"{PREFIX}{run}-{hashlib.sha256(url.encode()).hexdigest()[:8]}"  # runs of the same name have other links
    values = {"RUN": run, "LINK": url, "WHEEL": program.file_name, "SHA256": program.sha256, "FOLDER": folder}
    source = SCRIPT.read_text(encoding="utf-8")
    assert source.count(EMPTY) == 1, "the script has one place for them"
    filled = " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items())
    return translated(source, Language(language)).replace(EMPTY, filled).encode()


def one_line(url: str) -> str:
    """What to type into a shell to join the run behind a link."""
    return f"curl -LsSf {shlex.quote(f'{url}/{FILE_NAME}')} | sh"
