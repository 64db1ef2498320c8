"""The program is `sahaj-swarm` for pip: the name of its command is that of another project on PyPI."""

import importlib.metadata
import io
import re
import subprocess
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import pytest

from coordinator.notebook.wheel import this_program
from swarm.version import DISTRIBUTION

NAME = r"(?<![\w/.-])sahaj(?![\w/.-])"
OUR_COMMAND = r"--(from|spec) (\S*/sahaj_swarm-\S+\.whl|WHEEL) sahaj\b"
INSTALLS = (
    rf"\b(pip|pip3|pipx|uv|conda)\b.*?\b(install|uninstall|run|download|add|wheel)\b.*{NAME}",
    rf"\buvx\b.*{NAME}",
    rf"{NAME}(\[[a-z]|\s*(@|[=~<>!]=)\s*\S)",  # a requirement
    r"\bsahaj-[\d{$V]\S*(\.whl|\.tar|\.dist-info)",
    rf"\b(version|distribution|metadata|requires|files)\(\s*[\"']{NAME}",
    rf"^name = [\"']{NAME}",
)
FOREIGN = (
    "pip install sahaj",
    "python -m pip install --upgrade 'sahaj[dashboard]'",
    "uvx sahaj join",
    "uv tool install sahaj",
    'wheel = f"sahaj @ {url}/program/{WHEEL}"',
    "sahaj==0.1.0",
    '    "sahaj[dashboard,postgresql]",',
    "sahaj-$version-py3-none-any.whl",
    'importlib.metadata.version("sahaj")',
    'name = "sahaj"',
)
OURS = (
    'pip install "sahaj-swarm @ https://run.example.org/program/sahaj_swarm-0.1.0-py3-none-any.whl"',
    "/opt/sahaj/bin/pip install --constraint /src/constraints.txt torch",
    "git clone <this repository> sahaj && cd sahaj && make setup",
    "uvx --from https://run.example.org/program/sahaj_swarm-0.1.0-py3-none-any.whl sahaj join https://run.example.org",
    'importlib.metadata.version("sahaj-swarm")',
)


def found_in(text: str) -> list[str]:
    """The lines that would install it; a command of a wheel of ours is none."""
    lines = {line: re.sub(OUR_COMMAND, "", line) for line in text.splitlines()}
    return [line for line, rest in lines.items() if any(re.search(pattern, rest) for pattern in INSTALLS)]


def tracked(root: Path) -> Iterator[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=False, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a checkout")
    yield from (root / name for name in filter(None, listed.stdout.split("\0")))


def test_the_search_finds_what_it_should():
    assert [line for line in FOREIGN if not found_in(line)] == []
    assert [line for line in OURS if found_in(line)] == []


def test_no_file_installs_the_other_project(pytestconfig: pytest.Config):
    found: dict[str, list[str]] = {}
    for path in tracked(pytestconfig.rootpath):
        if path.is_file() and path.name != Path(__file__).name:
            lines = found_in(path.read_text(encoding="utf-8", errors="replace"))
            found |= {path.name: lines} if lines else {}
    assert found == {}


def test_the_metadata_and_the_wheel_have_the_name_of_ours(pytestconfig: pytest.Config):
    assert DISTRIBUTION == "sahaj-swarm"
    assert f'name = "{DISTRIBUTION}"' in (pytestconfig.rootpath / "pyproject.toml").read_text()
    assert importlib.metadata.metadata(DISTRIBUTION)["Name"] == DISTRIBUTION
    program = this_program()
    assert program.file_name == f"sahaj_swarm-{program.version}-py3-none-any.whl"
    with zipfile.ZipFile(io.BytesIO(program.content)) as archive:
        about = Parser().parsestr(archive.read(f"sahaj_swarm-{program.version}.dist-info/METADATA").decode())
        commands = archive.read(f"sahaj_swarm-{program.version}.dist-info/entry_points.txt").decode()
    assert about["Name"] == DISTRIBUTION
    needed = {re.split(r"[^\w.-]", one)[0].lower() for one in about.get_all("Requires-Dist", [])}
    assert "hivemind" in needed and "sahaj" not in needed
    assert "sahaj = app.cli:main" in commands
