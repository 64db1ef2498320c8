"""The cloud-init file by which a preemptible machine joins at boot."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from app.cli import app
from app.join.background.spot_notice import AMAZON_GRACE
from app.join.problems import ProblemKind
from tests.app.join.stand_in import Answer, StandIn
from tests.support.waiting import PATIENCE


@pytest.fixture(scope="module")
def cloud_init(pytestconfig: pytest.Config) -> dict[str, Any]:
    text = (pytestconfig.rootpath / "docs" / "hosting" / "cloud-init.yaml").read_text()
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
    assert int(stop) > AMAZON_GRACE + 8
    (prevented,) = re.findall(r"^RestartPreventExitStatus=(.*)$", unit, re.MULTILINE)
    assert set(map(int, prevented.split())) == {
        ProblemKind.BANNED,
        ProblemKind.FINISHED,
        ProblemKind.MACHINE_TOO_SMALL,
        ProblemKind.NOT_ALLOWED,
        ProblemKind.TOKEN_MISSING,
        ProblemKind.TOKEN_REJECTED,
        ProblemKind.TOKEN_TOO_STRONG,
    }
    assert "\nExecStartPre=+/usr/local/sbin/sahaj-install\n" in unit, "a program that is too old is replaced"
    assert "--unit=sahaj-install" in cloud_init["runcmd"][0], "its journal has a name"
    assert ["systemctl", "enable", "--now", "sahaj.service"] in cloud_init["runcmd"]
    assert set(cloud_init) == {"write_files", "packages", "users", "runcmd"}


def test_systemd_reads_the_service(cloud_init: dict[str, Any], tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze")
    unit = tmp_path / "sahaj.service"
    content = written(cloud_init, "/etc/systemd/system/sahaj.service")
    for program in ("/opt/sahaj/bin/sahaj", "/usr/local/sbin/sahaj-install"):
        content = content.replace(program, sys.executable)
    unit.write_text(content.replace("User=sahaj\n", ""))
    told = subprocess.run(["systemd-analyze", "verify", unit], check=False, capture_output=True, text=True)
    about = [line for line in told.stderr.splitlines() if "sahaj.service" in line]
    assert not about, "\n".join(about)


def test_what_installs_the_program_is_a_script(cloud_init: dict[str, Any], tmp_path: Path) -> None:
    script = tmp_path / "install"
    script.write_text(written(cloud_init, "/usr/local/sbin/sahaj-install"))
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0


def test_what_fails_to_install_is_tried_until_it_works(cloud_init: dict[str, Any], tmp_path: Path) -> None:
    """The command of the first boot, with an installation that works at the third time."""
    (*_, shell, option, command) = cloud_init["runcmd"][0]
    assert "/usr/local/sbin/sahaj-install" in command and "sleep 30" in command
    tries = tmp_path / "tries"
    install = tmp_path / "install"
    install.write_text(f"#!/bin/bash\necho >> {tries}; [ $(wc -l < {tries}) -ge 3 ]\n")
    install.chmod(0o755)
    here = command.replace("/usr/local/sbin/sahaj-install", str(install)).replace("sleep 30", "sleep 0")
    assert subprocess.run([shell, option, here], check=False, timeout=PATIENCE).returncode == 0
    assert len(tries.read_text().splitlines()) == 3


def test_a_slash_at_the_end_of_the_link_is_let_be(cloud_init: dict[str, Any], tmp_path: Path) -> None:
    """What the script asks for, written down by programs that stand in for Python and pip."""
    script = written(cloud_init, "/usr/local/sbin/sahaj-install").replace("/opt/sahaj", str(tmp_path))
    asked = tmp_path / "asked"
    (tmp_path / "bin").mkdir()
    for name in ("python3", "pip"):
        (tmp_path / "bin" / name).write_text(f'#!/bin/bash\necho "$@" >> {asked}; echo 7.1.0\n')
        (tmp_path / "bin" / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "SAHAJ_LINK": "https://run.example.org/"}
    subprocess.run(["bash", "-c", script], check=True, env=environment, capture_output=True)
    assert "https://run.example.org/program/sahaj_swarm-7.1.0-py3-none-any.whl" in asked.read_text()
    assert "example.org//" not in asked.read_text() and "example.org/\n" not in asked.read_text()


def test_the_torch_of_an_image_that_keeps_it_in_an_environment_is_seen(
    cloud_init: dict[str, Any], server: StandIn, tmp_path: Path
) -> None:
    server.answers["GET /api/run"] = Answer(body={"version": "7.1.0"})
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "pytorch"], check=True)
    (packages,) = tmp_path.glob("pytorch/lib/python*/site-packages")
    (packages / "torch.py").write_text("__version__ = 'of the image'\n")
    script = written(cloud_init, "/usr/local/sbin/sahaj-install").replace("/opt/", f"{tmp_path}/")
    script = script.replace("-m venv", "-m venv --without-pip").replace(f"{tmp_path}/sahaj/bin/pip", "echo")
    environment = {"PATH": "/usr/bin:/bin", "SAHAJ_LINK": server.url}
    done = subprocess.run(["bash", "-c", script], check=True, env=environment, capture_output=True, text=True)
    assert f"{server.url}/program/sahaj_swarm-7.1.0-py3-none-any.whl" in done.stdout
    seen = (tmp_path / "sahaj" / "bin" / "python", "-I", "-c", "import torch; print(torch.__version__)")
    assert subprocess.run(seen, check=True, capture_output=True, text=True).stdout == "of the image\n"
