"""`join.sh`: what it installs and when, what it does without, and what ends it."""

import fcntl
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.join_script.script import CONSTRAINTS, EMPTY, SCRIPT, one_line, script_for
from coordinator.notebook.wheel import Program
from tests.coordinator.join_script.conftest import RUN, Machine
from tests.notebook.conftest import make_wheel

HOSTILE = (
    "https://run.example.org/'; touch came-in; '",
    "a'b",
    "$(touch came-in)",
    "`touch came-in`",
    "a\ntouch came-in",
    '"',
)
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
NVIDIA = Path("/proc/driver/nvidia/version")


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "busybox"])
def test_it_is_valid_for_every_shell(shell: str, tmp_path: Path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "join.sh"
    script.write_bytes(script_for("https://run.example.org", Program("1", "one.whl", b""), run=RUN))
    flags = {"busybox": ["sh"], "bash": ["--posix"]}.get(shell, [])
    command = [shell, *flags, "-n", str(script)]
    assert subprocess.run(command, check=False, capture_output=True, text=True).stderr == ""


@pytest.mark.parametrize("value", HOSTILE)
def test_what_the_run_says_of_itself_is_no_command(value: str, tmp_path: Path):
    script = script_for(value, Program("1", value, b""), run=value).decode()
    start = SCRIPT.read_text().index(EMPTY)
    end = len(script) - len(SCRIPT.read_text()) + start + len(EMPTY)
    show = f'{script[start:end]}\nprintf "%s|%s|%s" "$RUN" "$LINK" "$WHEEL"'
    done = subprocess.run(["sh", "-c", show], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout == "|".join([value] * 3)
    subprocess.run(["sh", "-c", f"true {one_line(value)}x"], cwd=tmp_path, check=False, capture_output=True)
    assert not list(tmp_path.iterdir())


def test_the_first_start_installs_and_joins_and_the_second_one_only_joins(machine: Machine):
    for folder in (machine.bin, machine.folder):  # in which the line is typed
        (folder / "app.py").write_text("raise SystemExit('not this one')\n")
    machine.environment["PYTHONPATH"] = str(machine.bin)
    first = machine.start("--name", "Asha B")
    assert first.stdout == f"JOINED join {machine.url} --name Asha B READ '' first\n"
    told = first.stderr.splitlines()
    assert RUN in told[0] and machine.url in told[0] and str(machine.installation) in told[1]
    asked = machine.asked
    assert [line.split()[0] for line in asked] == ["python", "venv", "pip", "pip", "pip"]
    assert asked[2].endswith(" torch") and all("--constraint" in asked[number] for number in (2, 4))
    assert sorted(path.name for path in machine.installation.iterdir()) == ["link", "lock", "ready", "venv"]
    assert (machine.installation / "link").read_text() == f"{machine.url}\n"
    commands = machine.installation.parent / "commands"
    assert (commands / "sahaj").resolve() == (machine.installation / "venv" / "bin" / "sahaj").resolve()
    assert {path.name for path in machine.folder.iterdir()} == {"app.py", "bin", "home", "served", "uv.log"}

    shutil.rmtree(machine.offered)
    second = machine.start()
    assert (second.stdout, second.stderr) == (f"JOINED join {machine.url} READ '' first\n", "")
    assert machine.asked == asked


def test_another_digest_upgrades_the_installation(machine: Machine):
    machine.start()
    mark = machine.installation / "venv" / "mark"
    mark.touch()
    machine.offers("second")
    assert machine.start().stdout.endswith("second\n")
    assert mark.exists(), "what is there stays, PyTorch above all"
    assert machine.start().stderr == ""


@pytest.mark.parametrize("breaks", ["torch", "--no-deps", "kill --no-deps"])
def test_what_was_interrupted_begins_again(machine: Machine, breaks: str):
    machine.environment["UV_BREAKS"] = breaks
    stopped = machine.start()
    assert stopped.returncode != 0 and stopped.stdout == ""
    if not breaks.startswith("kill"):
        assert stopped.returncode in (130, -signal.SIGINT)
        assert stopped.stderr.splitlines()[-1] == "Stopped. Run the same command to start again."
        assert not (machine.installation / "tmp").exists()
    assert not (machine.installation / "ready").exists()
    (machine.installation / "venv" / "half").touch()
    del machine.environment["UV_BREAKS"]
    assert machine.start().stdout.startswith("JOINED")
    assert not (machine.installation / "venv" / "half").exists()


def test_an_interrupted_upgrade_begins_again(machine: Machine):
    machine.start()
    machine.offers("second")
    machine.environment["UV_BREAKS"] = "kill --no-deps"
    assert machine.start().returncode != 0
    del machine.environment["UV_BREAKS"]
    assert machine.start().stdout.endswith("second\n")


def test_an_installation_whose_python_is_gone_is_made_again(machine: Machine):
    machine.start()
    python = machine.installation / "venv" / "bin" / "python"
    python.unlink()
    python.symlink_to(machine.folder / "gone")
    assert machine.start().stdout.startswith("JOINED")


def test_another_program_than_the_scripts_is_refused(machine: Machine):
    expected = machine.program
    machine.offers("false")
    refused = machine.start(program=expected)
    assert refused.returncode == 1 and refused.stdout == ""
    last = refused.stderr.splitlines()[-1]
    assert expected.sha256 in last and machine.program.sha256 in last and "tell the organizer" in last
    assert not any(line.startswith("pip") for line in machine.asked)
    shutil.rmtree(machine.offered)
    assert "cannot be fetched" in machine.start().stderr.splitlines()[-1]


def test_an_installation_in_use_stays_as_it_is(machine: Machine):
    machine.start()
    machine.offers("second")
    with (machine.installation / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        refused = machine.start()
        assert refused.returncode == 1 and "in use by a peer" in refused.stderr.splitlines()[-1]
    assert machine.start().stdout.endswith("second\n")


@pytest.mark.parametrize(
    ("system", "way_out"),
    [("MINGW64_NT-10.0 x86_64", "install WSL"), ("Linux armv7l", "no PyTorch"), ("Darwin x86_64", "no PyTorch")],
)
def test_a_machine_without_pytorch_is_told(machine: Machine, system: str, way_out: str):
    machine.has("uname", f'#!/bin/sh\n[ "$1" = -sm ] && echo "{system}"\n')
    told = machine.start()
    assert told.returncode == 1 and way_out in told.stderr.splitlines()[-1]
    assert not (machine.folder / "home").exists()


def test_without_a_usable_python_it_says_what_to_install(machine: Machine):
    (machine.bin / "uv").unlink()
    told = machine.start()
    assert told.returncode == 1 and "there is no Python 3.10 to 3.13: install one" in told.stderr.splitlines()[-1]
    machine.has("python3.12", "#!/bin/sh\nexit 1\n")  # too old, or a pyenv shim that leads nowhere
    assert "there is no Python" in machine.start().stderr.splitlines()[-1]
    machine.has("python3.11", f'#!/bin/sh\ncase "$*" in *ensurepip*) exit 1 ;; esac\nexec "{sys.executable}" "$@"\n')
    assert "python3.11 has no venv: install it" in machine.start().stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("environment", "index"),
    [
        ({}, CPU_INDEX),
        ({"SAHAJ_TORCH_INDEX": "https://mirror/cpu"}, "https://mirror/cpu"),
        ({"SAHAJ_TORCH_INDEX": ""}, None),
        ({"PIP_INDEX_URL": "https://mirror/simple"}, None),
        ({"UV_DEFAULT_INDEX": "https://mirror/simple"}, None),
    ],
)
def test_the_index_of_pytorch_fits_the_machine(machine: Machine, environment: dict[str, str], index: str | None):
    if NVIDIA.exists() or os.uname().sysname != "Linux":
        pytest.skip("a machine of another kind")
    machine.environment |= environment
    machine.start()
    torch, *others = (line for line in machine.asked if line.startswith("pip"))
    assert (f"--extra-index-url {index}" in torch) if index else ("index-url" not in torch)
    assert not any("index-url" in line for line in others)


def test_with_a_gpu_of_nvidia_pytorch_is_that_of_pypi(machine: Machine):
    machine.has("nvidia-smi", "#!/bin/sh\nexit 0\n")
    assert machine.start().stdout.startswith("JOINED")
    assert machine.asked and not any("index-url" in line for line in machine.asked)


def test_questions_are_asked_at_the_terminal(machine: Machine):
    machine.start()
    script = machine.folder / "join.sh"
    script.write_bytes(script_for(machine.url, machine.program, run=RUN))
    process, terminal = pty.fork()
    if process == 0:
        environment = {"PATH": str(machine.bin), "SAHAJ_HOME": str(machine.folder / "home")}
        os.execve(machine.bin / "sh", ["sh", "-c", f"cat '{script}' | sh"], environment)
    os.write(terminal, b"an answer\n")
    said = b""
    while b"first" not in said:
        said += os.read(terminal, 1024)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) in (0, -signal.SIGHUP)
    assert b"READ 'an answer\\n'" in said


def test_without_uv_a_real_venv_gets_the_pinned_versions_by_pip(machine: Machine):
    (machine.bin / "uv").unlink()
    (machine.bin / "python3.11").symlink_to(sys.executable)
    for version in ("2.12.0", "2.13.0", "99.0"):
        make_wheel(
            machine.folder / "index", "torch", version, {"torch/__init__.py": f"VERSION = '{version}'\n".encode()}
        )
    machine.environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(machine.folder / "index")}
    done = machine.start()
    assert done.stdout.startswith("JOINED"), done.stderr
    python = machine.installation / "venv" / "bin" / "python"
    asked = subprocess.run(
        [python, "-c", "import torch; print(torch.VERSION)"], check=True, capture_output=True, text=True
    )
    assert asked.stdout == "2.13.0\n"
    machine.offers("second")
    assert machine.start().stdout.endswith("second\n")


def test_the_pins_are_the_projects_own(pytestconfig: pytest.Config):
    assert CONSTRAINTS.read_bytes() == (pytestconfig.rootpath / "constraints.txt").read_bytes()
