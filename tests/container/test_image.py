"""The image: its file is clean, and each of its commands does what it is there for, in a root of its own."""

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from coordinator.notebook.wheel import PACKAGES
from swarm.version import program_version
from tests.container.dockerfile import Build, Stage, context, read_dockerfile

PIP = {"PIP_RETRIES": "0", "PIP_NO_DEPS": "1"}  # without dependencies: make setup has just resolved all of them
HADOLINT = Path(sys.executable).with_name("hadolint")


@pytest.fixture(scope="module")
def stages(pytestconfig: pytest.Config) -> list[Stage]:
    return read_dockerfile(pytestconfig.rootpath / "Dockerfile")


@pytest.fixture(scope="module")
def built(
    pytestconfig: pytest.Config, stages: list[Stage], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Build, Stage]:
    """All stages, carried out as root of a namespace, and the last of them."""
    if os.geteuid() or not shutil.which("unshare") or not shutil.which("apt-get"):
        pytest.skip("needs root on a Debian with unshare")
    if not Path(sys.base_prefix, "bin", "python").exists():
        pytest.skip("needs a Python with a folder of its own, as the base image's")
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs a machine that lets root mount")
    try:
        socket.create_connection(("deb.debian.org", 80), 5).close()
    except OSError:
        pytest.skip("needs Debian's packages from the network")
    network = ("PIP_", "SSL_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")  # how this machine reaches packages
    settings = {name: value for name, value in os.environ.items() if name.upper().startswith(network)} | PIP
    build = Build(tmp_path_factory.mktemp("image"), pytestconfig.rootpath, {"DEVICE": "cpu"}, settings)
    for stage in stages:
        build.run(stage)
    return build, stages[-1]


def test_the_file_is_clean(pytestconfig: pytest.Config) -> None:
    for file in ("Dockerfile", "dashboard/Dockerfile"):
        linted = subprocess.run([HADOLINT, pytestconfig.rootpath / file], check=False, capture_output=True, text=True)
        assert linted.returncode == 0, linted.stdout


def test_the_image_is_small_not_root_and_hears_signals(stages: list[Stage]) -> None:
    build, final = stages
    assert final.all_of("USER") == ["1000"]
    assert final.all_of("STOPSIGNAL") == ["SIGTERM"]
    (entry,) = final.all_of("ENTRYPOINT")
    assert json.loads(entry) == ["tini", "--", "sahaj"]
    assert "--no-cache-dir" in "".join(build.all_of("RUN")) or "PIP_NO_CACHE_DIR=1" in "".join(build.all_of("ENV"))
    assert [text for text in final.all_of("COPY") if not text.startswith("--from=build ")] == []
    (check,) = final.all_of("HEALTHCHECK")
    assert json.loads(check.split("CMD ")[1])[0] == "python"


def test_nothing_of_an_organizer_is_sent_to_the_engine(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    sent = {str(path) for path in context(pytestconfig.rootpath)}
    assert {"pyproject.toml", "app/cli.py", "runs/demo.yaml", "dashboard/.streamlit/config.toml"} <= sent
    assert not [path for path in sent if path.startswith((".git/", ".venv/", "tests/", "out/")) or "-state/" in path]


def test_every_package_is_in_the_image_and_all_but_the_pages_in_the_wheel_of_notebooks(
    pytestconfig: pytest.Config,
) -> None:
    root = pytestconfig.rootpath
    packages = {file.parent.name for file in root.glob("*/__init__.py")} - {"tests", "benchmarks", "runs"}
    assert packages <= {path.parts[0] for path in context(root)}
    assert packages - {"dashboard"} == set(PACKAGES)
    project = (root / "pyproject.toml").read_text()
    assert [name for name in packages if f'"{name}", "{name}.*"' not in project] == []


def test_another_device_than_those_two_is_refused(
    pytestconfig: pytest.Config, stages: list[Stage], tmp_path: Path
) -> None:
    (chosen,) = [text for text in stages[0].all_of("RUN") if "DEVICE" in text]
    done = subprocess.run(["sh", "-c", chosen], env={"DEVICE": "gpu"}, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "DEVICE is gpu; it must be cpu or cuda\n")


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_each_command_works_and_the_program_is_in_the_image(
    built: tuple[Build, Stage], pytestconfig: pytest.Config
) -> None:
    build, final = built
    constraints = (pytestconfig.rootpath / "constraints.txt").read_text().splitlines()
    path = {"PATH": "/opt/sahaj/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

    def said(*command: str) -> str:
        done = build.command(final, path, *command)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert said("sh", "-c", "command -v sahaj").strip() == "/opt/sahaj/bin/sahaj"
    versions = "import app, importlib.metadata as m; print(app.__file__, *map(m.version, ('sahaj-swarm', 'torch')))"
    where, ours, torch = said("python", "-I", "-c", versions).split()
    assert (
        where.startswith("/opt/sahaj") and ours == program_version() and f"torch=={torch.split('+')[0]}" in constraints
    )
    # the image's program with the libraries of these tests, for pip was told to install no dependencies
    libraries = f"PYTHONPATH={sysconfig.get_path('purelib')}"
    assert "coordinator" in said("env", libraries, "sahaj", "--help")
    program = said("env", libraries, "python", "-c", "import app.cli; print(app.cli.__file__)")
    assert program.startswith("/opt/sahaj")
    as_user = ("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups")
    assert said(*as_user, "sh", "-c", "id -un; touch /srv/sahaj/run.yaml && echo mine").split() == ["sahaj", "mine"]
    refused = build.command(final, path, *as_user, "touch", "/opt/sahaj/bin/sahaj")
    assert "Permission denied" in refused.stderr
    assert said(*as_user, "tini", "--", "python", "-c", "print('as a child of tini')") == "as a child of tini\n"
