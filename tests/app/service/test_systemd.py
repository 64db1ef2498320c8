"""The unit, to the letter; and systemd's own opinion of it, where it is installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from app.service.service import Service
from app.service.start_script import AS_IT_IS, BY_JOIN_SCRIPT, final_statuses
from app.service.systemd import State, folder_of, lingers, read_state, unit

RIVER = Service(
    name="run.example.org",
    link="https://run.example.org",
    folder=Path("/home/asha/.cache/sahaj/run.example.org"),
    script=AS_IT_IS,
    words=("/opt/venv/bin/sahaj", "join", "https://run.example.org", "--when", "22:00-07:00"),
    final=final_statuses(updates=False),
    environment={"SAHAJ_HOME": "/home/asha/.cache/sahaj", "PATH": "/usr/bin:/bin"},
)
ODD = Service(
    name="192.0.2.1-8080-a",
    link="http://192.0.2.1:8080/a%20b",
    folder=Path('/home/a sha/100% $HOME/"x"\\y/it\'s'),
    script=BY_JOIN_SCRIPT,
    words=("http://192.0.2.1:8080/a%20b/join.sh", "--name", "Asha $USER 100% \"q\" \\n 'x'; আশা", "${HOME}", ""),
    final=final_statuses(updates=True),
    environment={"SAHAJ_HOME": '/home/a sha/100% $HOME/"x"\\y'},
    seconds_to_stop=90,
)


def test_the_unit_of_a_run():
    assert (
        unit(RIVER)
        == """\
[Unit]
Description=A volunteer of the Sahaj run https://run.example.org
StartLimitIntervalSec=0

[Service]
ExecStart="/bin/sh" "-c" "exec \\"$$@\\"" "sahaj" "/opt/venv/bin/sahaj" "join" "https://run.example.org" "--when" \
"22:00-07:00"
Environment="PATH=/usr/bin:/bin"
Environment="SAHAJ_HOME=/home/asha/.cache/sahaj"
Restart=on-failure
RestartSec=60
RestartPreventExitStatus=20 26 27 28 29 30 34 39 40 31 32
SuccessExitStatus=130
# SIGTERM goes to the main process alone: it ends its helpers when they are no longer needed
KillMode=mixed
TimeoutStopSec=30

[Install]
WantedBy=default.target

[X-Sahaj]
Folder=/home/asha/.cache/sahaj/run.example.org
"""
    )


def test_odd_letters_are_escaped_as_systemd_reads_them():
    lines = unit(ODD).splitlines()
    (start,) = (line for line in lines if line.startswith("ExecStart="))
    assert start.endswith(
        ' "sahaj" "http://192.0.2.1:8080/a%%20b/join.sh" "--name" '
        '"Asha $$USER 100%% \\"q\\" \\\\n \'x\'; আশা" "$${HOME}" ""'
    )
    assert 'Environment="SAHAJ_HOME=/home/a sha/100%% $HOME/\\"x\\"\\\\y"' in lines
    assert "Description=A volunteer of the Sahaj run http://192.0.2.1:8080/a%%20b" in lines
    assert "RestartPreventExitStatus=20 26 27 28 29 30 34 39 40" in lines  # a new start brings another version


def test_the_folder_is_read_back():
    assert [folder_of(unit(one)) for one in (RIVER, ODD)] == [RIVER.folder, ODD.folder]
    assert folder_of("[Service]\nExecStart=/bin/true\n") is None


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("service", [RIVER, ODD], ids=["plain", "odd"])
def test_systemd_has_nothing_against_it(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("SYSTEMD_LOG_LEVEL", "debug")  # then it prints what it has read
    path = tmp_path / f"{service.label}.service"
    path.write_text(unit(service))
    told = subprocess.run(
        ["systemd-analyze", "--user", "verify", "--man=no", str(path)], check=False, capture_output=True, text=True
    )
    about = [line for line in told.stderr.splitlines() if f"{path}:" in line]  # lines that it could not read
    assert (told.returncode, about) == (0, []), told.stderr
    read = [line.strip() for line in told.stdout.splitlines()]
    assert f"Description: A volunteer of the Sahaj run {service.link}" in read
    assert {f"Environment: {name}={value}" for name, value in service.environment.items()} <= set(read)


def test_what_systemctl_shows_is_understood():
    at = "Thu 2026-11-26 17:00:01 UTC"

    def shown(active: str, sub: str, code: int, status: int) -> State:
        return read_state(
            f"ActiveState={active}\nSubState={sub}\nExecMainCode={code}\nExecMainStatus={status}\n"
            f"StateChangeTimestamp={at}\n"
        )

    assert shown("active", "running", 0, 0) == State(runs=True, since=at)
    assert shown("activating", "auto-restart", 1, 22) == State(runs=False, waits=True, since=at, status=22)
    assert shown("failed", "failed", 1, 30) == State(runs=False, since=at, status=30)
    assert shown("activating", "auto-restart", 2, 9) == State(runs=False, waits=True, since=at)  # by a signal
    assert read_state("") == State(runs=False)


def test_whether_a_user_lingers(tmp_path: Path):
    (tmp_path / "asha").touch()
    assert lingers("asha", tmp_path) and not lingers("bob", tmp_path)
