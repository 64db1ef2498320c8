"""A machine on which `join.sh` runs: the programs on its PATH, and a coordinator that offers a program."""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from coordinator.join_script.script import script_for
from coordinator.notebook.wheel import Program
from tests.notebook.conftest import make_wheel
from tests.notebook.conftest import served as served
from tests.support.waiting import PATIENCE

TOOLS = ("sh", "cat", "curl", "env", "grep", "ln", "mkdir", "mv", "rm", "sync", "uname")
NEEDED = ("dirname",)  # by Python's own virtual environments
RUN = "bengali"
PROGRAM = """
import sys
def main():
    print("JOINED", *sys.argv[1:], "READ", repr(sys.stdin.readline()), "{version}")
"""


@dataclass
class Machine:
    """Its script is that of `program`, at `url`; `bin` has the programs that it finds."""

    folder: Path
    bin: Path
    url: str
    offered: Path  # the folder that the coordinator serves
    program: Program
    environment: dict[str, str] = field(default_factory=dict)
    language: str = "en"  # of the run

    @property
    def installation(self) -> Path:
        (one,) = (self.folder / "home").glob("program-*")
        return one

    @property
    def asked(self) -> list[str]:
        """What uv was asked."""
        log = self.folder / "uv.log"
        return log.read_text().splitlines() if log.exists() else []

    def has(self, name: str, text: str) -> None:
        """There is a program of this name, a script."""
        put(self.bin / name, text)

    def offers(self, version: str) -> None:
        """The coordinator has another program, of the same version by name."""
        self.program = make_program(self.offered, version)

    def start(self, *options: str, program: Program | None = None) -> "subprocess.CompletedProcess[str]":
        """Pipe the script into `sh`, without a terminal."""
        script = script_for(self.url, program or self.program, run=RUN, language=self.language)
        process = subprocess.Popen(
            [self.bin / "sh", "-s", "--", *options],
            env={
                "PATH": str(self.bin),
                "HOME": str(self.folder),
                "SAHAJ_HOME": str(self.folder / "home"),
                "UV_LOG": str(self.folder / "uv.log"),
                **self.environment,
            },
            cwd=self.folder,
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            said, complained = process.communicate(script, PATIENCE)
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
        return subprocess.CompletedProcess([], process.returncode, said.decode(), complained.decode())


def put(path: Path, text: str) -> None:
    """Make a program of a script."""
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def give_uv(folder: Path) -> None:
    """Put the stand-in for uv into a folder of programs."""
    folder.mkdir(exist_ok=True)
    put(folder / "uv", f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).with_name("uv_stand_in.py")}" "$@"\n')


def make_program(served: Path, version: str) -> Program:
    """A program that the coordinator offers from now on; `version` is in what it prints, and not in its name."""
    files = {
        "app/__init__.py": b"",
        "app/cli.py": PROGRAM.format(version=version).encode(),
        "coordinator/join_script/constraints.txt": b"torch==2.13.0\n",
        "sahaj_swarm-7.1.0.dist-info/entry_points.txt": b"[console_scripts]\nsahaj = app.cli:main\n",
    }
    path = make_wheel(served / "program", "sahaj-swarm", "7.1.0", files, "torch>=2.6")
    return Program("7.1.0", path.name, path.read_bytes())


@pytest.fixture
def machine(served: tuple[str, Path], tmp_path: Path) -> Machine:
    """One that has uv."""
    for name in TOOLS:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    url, folder = served
    (tmp_path / "bin").mkdir()
    for name in (*TOOLS, *NEEDED):
        if found := shutil.which(name):
            (tmp_path / "bin" / name).symlink_to(found)
    one = Machine(tmp_path, tmp_path / "bin", url, folder, make_program(folder, "first"))
    give_uv(one.bin)
    return one
