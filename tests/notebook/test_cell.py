"""The cell of the notebook: a pinned program beside what the platform has, and clear words when it cannot be had."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.join.address import coordinator_url, is_private
from app.join.problems import ProblemKind
from coordinator.notebook.build import CELL, code
from coordinator.notebook.wheel import Program, this_program
from swarm.version import DISTRIBUTION
from tests.notebook.conftest import KERNEL, TORCH, make_wheel
from tests.support.problems import raises_problem
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.xdist_group("platform")  # its Python is built once
VERSION = "7.1.0"


@dataclass
class Notebook:
    """A platform's kernel, as far as the cell uses it."""

    python: Path
    cache: Path
    tempting: Path  # an index with a newer torch
    has_program: bool = False  # that the platform came with

    def run(self, url: str, program: Program, *, typed: str = "", answer: str = "") -> str:
        """What the cell prints; `typed` into the field for the link, or the `answer` to its question."""
        environment = os.environ | {
            "XDG_CACHE_HOME": str(self.cache),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.tempting),
        }
        source = code(url, program).replace('URL = ""', f'URL = "{typed}"')
        done = subprocess.run(
            [self.python, "-c", source],
            env=environment,
            cwd=self.cache.parent,  # and not where this project has its own metadata
            check=True,
            capture_output=True,
            text=True,
            input=answer,
            timeout=PATIENCE,
        )
        assert done.stderr == ""
        return done.stdout

    def has(self, wheel: Path) -> None:
        """The platform has this, too."""
        install = ("-m", "pip", "--disable-pip-version-check", "install", "--no-index", "--no-deps", wheel)
        subprocess.run([self.python, *install], check=True, capture_output=True)
        self.has_program = True

    def says(self, python: str, question: str) -> str:
        return subprocess.run([python, "-I", "-c", question], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(autouse=True)
def no_path_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its PYTHONPATH may lead to this project, whose metadata the platform does not have."""
    monkeypatch.delenv("PYTHONPATH", raising=False)


@pytest.fixture
def notebook(platform_python: Path, tmp_path: Path) -> Iterator[Notebook]:
    make_wheel(tmp_path / "index", "torch", "99.0", {"torch/__init__.py": b"__version__ = '99.0'\n"})
    one = Notebook(platform_python, tmp_path / "cache", tmp_path / "index")
    yield one
    if one.has_program:
        uninstall = ("-m", "pip", "uninstall", "--yes", DISTRIBUTION)
        subprocess.run([platform_python, *uninstall], check=True, capture_output=True)


@pytest.fixture
def program(served: tuple[str, Path]) -> Callable[..., Program]:
    """`program("torch>=2.6")`: what a coordinator offers, and needs that."""

    def make(*needs: str) -> Program:
        files = dict.fromkeys(("app/__init__.py", "app/notebook/__init__.py"), b"")
        files["app/notebook/kernel.py"] = KERNEL.encode()
        path = make_wheel(served[1] / "program", DISTRIBUTION, VERSION, files, *needs)
        return Program(VERSION, path.name, path.read_bytes())

    return make


def test_the_program_is_installed_once_and_the_platform_stays_as_it_is(
    notebook: Notebook, program: Callable[..., Program], served: tuple[str, Path]
) -> None:
    url, folder = served
    offered = program("torch>=2.6")
    said = notebook.run(url, offered)
    assert "Installing the program" in said
    assert f"JOINED {url} as ''" in said
    python = said.split(" with ")[1].strip()
    assert notebook.says(python, "import torch; print(torch.__version__)") == TORCH
    assert notebook.says(python, "import importlib.metadata as m; print(m.version('sahaj-swarm'))") == VERSION
    assert notebook.says(str(notebook.python), "import importlib.util as u; print(u.find_spec('app'))") == "None"
    (folder / "program" / offered.file_name).unlink()
    again = notebook.run(url, offered)
    assert "Installing" not in again and f"JOINED {url}" in again


def test_a_program_that_would_replace_torch_is_not_installed(
    notebook: Notebook, program: Callable[..., Program], served: tuple[str, Path]
) -> None:
    offered = program("torch>=50")
    assert "JOINED" not in notebook.run(served[0], offered)
    assert notebook.says(str(notebook.python), "import torch; print(torch.__version__)") == TORCH
    assert not list(notebook.cache.rglob("torch-99*"))


def test_another_program_than_the_pinned_one_is_refused(
    notebook: Notebook, program: Callable[..., Program], served: tuple[str, Path]
) -> None:
    pinned = program()
    program("newer>=1")  # takes its place on the server
    said = notebook.run(served[0], pinned)
    assert "The run has a newer program than this notebook" in said
    assert "JOINED" not in said and "Traceback" not in said
    (served[1] / "program" / pinned.file_name).unlink()
    said = notebook.run(served[0], pinned)
    assert "The run has another version of the program" in said


def test_a_pinned_program_is_not_the_one_of_the_same_version_that_the_platform_has(
    notebook: Notebook, program: Callable[..., Program], served: tuple[str, Path], tmp_path: Path
) -> None:
    files = dict.fromkeys(("app/__init__.py", "app/notebook/__init__.py"), b"")
    files["app/notebook/kernel.py"] = KERNEL.replace("JOINED", "TAKEN IN").encode()
    notebook.has(make_wheel(tmp_path / "older", DISTRIBUTION, VERSION, files))
    said = notebook.run(served[0], program())
    assert f"JOINED {served[0]}" in said and "TAKEN IN" not in said


def test_a_package_of_the_same_name_and_version_is_told_in_a_line(
    notebook: Notebook, program: Callable[..., Program], served: tuple[str, Path], tmp_path: Path
) -> None:
    notebook.has(make_wheel(tmp_path / "foreign", DISTRIBUTION, VERSION, {"sahaj/__init__.py": b""}))
    (line,) = notebook.run("", program(), typed=served[0]).splitlines()
    assert "the program there does not start (ModuleNotFoundError: No module named 'app')" in line
    assert "Run %pip uninstall --yes sahaj-swarm, then run the cell again." in line


def test_a_link_where_nobody_is_is_told_as_in_a_terminal(
    notebook: Notebook, program: Callable[..., Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_RETRIES", "0")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        said = notebook.run("", program(), typed=f"127.0.0.1:{taken.getsockname()[1]}")
    assert said.splitlines()[-1].startswith("nothing is listening there; check the port")


def test_programs_of_two_links_of_one_machine_have_places_of_their_own(
    notebook: Notebook, program: Callable[..., Program], served: tuple[str, Path]
) -> None:
    unpinned = program()
    for link, typed in (("river", "river"), ("sea", "sea/join.ipynb")):
        (served[1] / link).symlink_to(served[1])
        said = notebook.run("", unpinned, typed=f"{served[0].removeprefix('http://')}/{typed}")
        assert "Installing the program" in said and f"JOINED {served[0]}/{link} as" in said
    assert len(list(notebook.cache.glob("sahaj/program-*"))) == 2


def test_without_a_link_it_asks_for_one_and_without_encryption_it_takes_no_unknown_program(
    notebook: Notebook, program: Callable[..., Program]
) -> None:
    assert "Write the run's link between the quotes after URL" in notebook.run("", program())
    for given in ({"typed": "192.0.2.1:8080"}, {"answer": "http://192.0.2.1:8080/\n"}):
        said = notebook.run("", program(), **given)
        assert "is not encrypted" in said and "http://192.0.2.1:8080/join.ipynb" in said


@pytest.mark.parametrize(
    "link",
    [
        *("a.org", "a.xn--p1ai", "run.a.org:443/x", "192.0.2.1:8080", "192.0.2.1", "a.org:8080", "box", "[::1]:80"),
        *("a.org/join.ipynb", "https://a.org/x/join.sh", "http://a.org"),
    ],
)
def test_a_link_is_completed_as_joining_completes_it(link: str) -> None:
    cell: dict[str, Any] = {}
    exec(CELL.read_text().removesuffix("main()\n"), cell)
    assert cell["whole_link"](f"{link}/") == coordinator_url(f"{link}/")


@pytest.mark.parametrize(
    "slip",
    [
        *("http:/192.0.2.1:8080", "https:/a.org", "http//a.org", "http:a.org", "htp://a.org", "https://", "a b.org"),
        *("/", "'https://a.org'", "sahaj join https://a.org", "asha@a.org", "a.org:port", "/ip4/192.0.2.1/tcp/1"),
    ],
)
def test_a_slip_of_pasting_is_named_with_the_way_out(slip: str) -> None:
    cell: dict[str, Any] = {}
    exec(CELL.read_text().removesuffix("main()\n"), cell)
    with pytest.raises(SystemExit) as told:
        cell["whole_link"](slip)
    assert str(told.value).startswith(f"{slip}: not a URL; give the run's link, as https://run.example.org or ")
    with raises_problem(ProblemKind.BAD_URL):
        coordinator_url(slip)


@pytest.mark.parametrize(
    "machine", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]:80", "192.0.2.1", "[2001:db8::1]", "a"]
)
@pytest.mark.parametrize("scheme", ["http", "https", "HTTPS"])
def test_a_connection_is_private_where_joining_takes_it_for_private(scheme: str, machine: str) -> None:
    cell: dict[str, Any] = {}
    exec(CELL.read_text().removesuffix("main()\n"), cell)
    assert cell["is_private"](f"{scheme}://{machine}") == is_private(coordinator_url(f"{scheme}://{machine}"))


def test_the_program_that_a_coordinator_really_offers_is_installed_and_starts(
    served: tuple[str, Path], tmp_path: Path
) -> None:
    """Beside what these tests have, for there is no index: what the program needs is there, as on a platform."""
    url, folder = served
    offered = this_program()
    (folder / "program").mkdir()
    (folder / "program" / offered.file_name).write_bytes(offered.content)
    source = code(url, offered)
    assert source.endswith("\nmain()\n")
    install = source.removesuffix("main()\n") + "print(python_with_program(URL))\n"
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PIP_NO_INDEX": "1"}

    def run(*command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command, env=environment, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=240
        )

    installed = run(sys.executable, "-c", install)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    python = installed.stdout.split()[-1]
    where = run(python, "-I", "-c", "import app.notebook.kernel as kernel; print(kernel.__file__)").stdout
    assert where.startswith(str(tmp_path / "cache")), "and not the files of this folder"
    told = run(python, "-I", "-m", "app.cli", "join", "http://127.0.0.1:9", "--name", "asha", "--notebook")
    assert told.returncode == 22 and "nothing is listening there" in told.stdout + told.stderr
