"""A preemptible machine: the notices of three clouds, and the file by which such a machine joins at boot."""

import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer.main
import yaml

from app.cli import app
from app.joining import spot
from app.joining.problems import Banned, NotAllowed, RunFinished
from app.joining.spot import CLOUDS, Spot
from tests.app_joining.metadata_stand_in import CloudName, MetadataStandIn

Given = Callable[[CloudName], MetadataStandIn]


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Given]:
    """`cloud("Amazon")`: this machine is one of theirs."""
    opened: list[MetadataStandIn] = []

    def make(name: CloudName) -> MetadataStandIn:
        opened.append(MetadataStandIn(name).__enter__())
        monkeypatch.setenv(spot.ELSEWHERE, opened[-1].url)
        return opened[-1]

    yield make
    for one in opened:
        one.__exit__()


@pytest.mark.parametrize("name", get_args(CloudName))
def test_a_notice_of_each_cloud_asks_the_peer_to_leave_in_time(
    name: CloudName, cloud: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spot, "LOOK_EVERY", 0.05)
    asked = threading.Event()
    said: list[str] = []
    monkeypatch.setattr("os.kill", lambda _pid, number: asked.set() if number == signal.SIGTERM else None)
    around = cloud(name)
    watched = Spot(said.append)
    assert watched.grace == next(one.grace for one in CLOUDS if one.name == name) < (120 if name == "Amazon" else 30)
    watched.start()
    assert not asked.wait(0.3)
    around.failing = True
    assert not asked.wait(0.2)
    around.failing = False
    around.take_away()
    assert asked.wait(10)
    (line,) = said
    assert line.startswith(f"{name} takes this machine away (")


def test_without_a_cloud_it_is_said_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(spot.ELSEWHERE, "http://127.0.0.1:9")
    said: list[str] = []
    before = threading.active_count()
    nowhere = Spot(said.append)
    nowhere.start()
    assert nowhere.grace is None and len(said) == 1 and threading.active_count() == before


@pytest.fixture(scope="module")
def cloud_init(pytestconfig: pytest.Config) -> dict[str, Any]:
    text = (pytestconfig.rootpath / "docs" / "spot" / "cloud-init.yaml").read_text()
    assert text.startswith("#cloud-config\n"), "else cloud-init takes it for something else"
    return yaml.safe_load(text)


def written(cloud_init: dict[str, Any], path: str) -> str:
    return next(file["content"] for file in cloud_init["write_files"] if file["path"] == path)


def test_the_service_of_a_machine_joins_at_boot_and_is_given_the_time_to_leave(cloud_init: dict[str, Any]) -> None:
    unit = written(cloud_init, "/etc/systemd/system/sahaj.service")
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    program, verb, *arguments = shlex.split(line.replace("${SAHAJ_LINK}", "https://run.example.org"))
    assert program == "/opt/sahaj/bin/sahaj"
    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    assert command.make_context(verb, arguments).params["spot"] is True
    (stop,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert int(stop) > max(one.grace for one in CLOUDS) + 8
    for problem in (Banned, NotAllowed, RunFinished):
        assert re.search(rf"^RestartPreventExitStatus=.*\b{problem.exit_status}\b", unit, re.MULTILINE)
    assert ["systemctl", "enable", "--now", "sahaj.service"] in cloud_init["runcmd"]
    assert set(cloud_init) == {"write_files", "packages", "users", "runcmd"}


def test_systemd_reads_the_service(cloud_init: dict[str, Any], tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze")
    unit = tmp_path / "sahaj.service"
    content = written(cloud_init, "/etc/systemd/system/sahaj.service")
    unit.write_text(content.replace("/opt/sahaj/bin/sahaj", sys.executable).replace("User=sahaj\n", ""))
    told = subprocess.run(["systemd-analyze", "verify", unit], check=False, capture_output=True, text=True)
    about = [line for line in told.stderr.splitlines() if "sahaj.service" in line]
    assert not about, "\n".join(about)


def test_what_installs_the_program_is_a_script(cloud_init: dict[str, Any], tmp_path: Path) -> None:
    script = tmp_path / "install"
    script.write_text(written(cloud_init, "/usr/local/sbin/sahaj-install"))
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    assert "/usr/local/sbin/sahaj-install" in [part for line in cloud_init["runcmd"] for part in line]
