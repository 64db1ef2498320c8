"""`sahaj service` as it is typed, with stand-ins for systemd and the coordinator."""

import subprocess
import sys
from pathlib import Path

import pytest

from app.join.join import JoinOptions, _view
from app.join.peer_folder import name_of
from app.service import service_options, services
from app.service.launchd import Launchd
from app.service.service import Service, State, kept_environment
from app.service.systemd import Systemd
from swarm.errors import SahajError
from tests.app.join.stand_in import OPEN_RUN, Answer, StandIn
from tests.app.service.conftest import Machine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a Mac has launchd")


@pytest.fixture
def open_run(server: StandIn) -> StandIn:
    server.answers["GET /api/run"] = Answer(body=OPEN_RUN)
    return server


def installed(link: str, machine: Machine, *options: str) -> "subprocess.CompletedProcess[str]":
    done = machine.sahaj("service", "install", link, *options)
    assert done.returncode == 0, done.stderr
    return done


def test_a_service_from_install_to_remove(machine: Machine, open_run: StandIn):
    link, name = open_run.url, name_of(open_run.url)
    unit, folder = f"sahaj-{name}.service", machine.home / name
    done = installed(link, machine, "--when", "night", "--name", "Asha 100%")
    assert machine.calls() == [
        "--user show --property=Version",
        "--user daemon-reload",
        f"--user enable {unit}",
        f"--user restart {unit}",
    ]
    text = (machine.units / unit).read_text()
    program = Path(sys.executable).with_name("sahaj")
    assert (
        f'"{program}" "join" "{link}" "--when" "night" "--name" "Asha 100%%" '
        f'"--state" "{folder}" "--pause-file" "{folder}/pause" "--service"\n'
    ) in text
    assert f'Environment="SAHAJ_HOME={machine.home}"\n' in text and '\nEnvironment="PATH=' in text
    assert "loginctl enable-linger" in done.stdout and f"journalctl --user-unit {unit} --follow" in done.stdout

    machine.shows("ActiveState=inactive\n")
    assert "  step 12 of 100, pausing: until 22:00\n" in machine.sahaj("service", "status").stdout, "why it has ended"
    machine.shows("ActiveState=active\nStateChangeTimestamp=Thu 2026-11-26 17:00:01 UTC\n")
    assert machine.sahaj("service", "pause").stdout == f"{name}: pauses until `sahaj service resume`.\n"
    assert (folder / "pause").exists()
    assert machine.sahaj("service", "status").stdout.splitlines() == [
        f"{name}: running (since Thu 2026-11-26 17:00:01 UTC)",
        "  you have paused it: `sahaj service resume` goes on",
        "  step 12 of 100, pausing: until 22:00",
        f"  journalctl --user-unit {unit} --follow",
        f"  log: {folder / 'logs'}",
    ]
    assert machine.sahaj("service", "resume", link).returncode == 0 and not (folder / "pause").exists()

    (folder / "pause").mkdir()
    stuck = machine.sahaj("service", "resume", link)
    assert stuck.returncode == 6 and f"{folder}/pause: could not be removed (" in stuck.stderr
    assert stuck.stderr.endswith("remove it by hand\n") and stuck.stderr.count("\n") == 1
    (folder / "pause").rmdir()

    left = machine.sahaj("leave", link, "--yes")
    assert left.returncode == 1 and "a service trains there; `sahaj service remove` first" in left.stderr
    machine.calls()
    assert "`sahaj leave` removes it" in machine.sahaj("service", "remove", link).stdout
    assert machine.calls() == [f"--user disable --now {unit}", "--user daemon-reload"]
    assert not (machine.units / unit).exists() and folder.is_dir()
    assert "no service of any run is installed" in machine.sahaj("service", "status").stderr


def test_what_one_service_cannot_do_keeps_no_other_from_it(machine: Machine, monkeypatch: pytest.MonkeyPatch):
    folders = {name: machine.home / name for name in ("boat", "river", "sea")}
    monkeypatch.setattr(Systemd, "installed", lambda self: folders)
    said: list[str] = []
    services.pause(None, said.append)
    for name in ("boat", "river"):
        (folders[name] / "pause").unlink()
        (folders[name] / "pause").mkdir()
    said.clear()
    with pytest.raises(SahajError, match=r"river/pause: could not be removed"):
        services.resume(None, said.append)
    assert said[0] == "sea: goes on." and "boat/pause: could not be removed" in said[1] and len(said) == 2


def test_what_cannot_be_a_service_is_said_in_one_line(
    machine: Machine, coordinator: StandIn, monkeypatch: pytest.MonkeyPatch
):
    def problem(*arguments: str) -> str:
        done = machine.sahaj("service", *arguments)
        assert done.returncode not in (0, 2) and done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    assert "--pause-file: a service has its own" in problem("install", coordinator.url, "--pause-file", "x")
    assert f"give the full path, {Path('texts').absolute()}" in problem("install", coordinator.url, "--data", "texts")
    assert "auth login` and a token without permissions" in problem("install", coordinator.url)
    assert f"no service of {coordinator.url} is installed" in problem("pause", coordinator.url)
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={machine.folder}/no-bus")
    idle = machine.sahaj("service", "install", coordinator.url, "--when", "idle+night")
    assert idle.returncode == 2 and "this machine does not tell whether somebody uses it; name hours" in idle.stderr
    assert idle.stderr.count("\n") == 1
    machine.have_bus(False)
    without = problem("install", coordinator.url, "--name", "Asha Rao")
    assert "No medium found" in without
    assert f"`nohup sahaj join {coordinator.url} --name 'Asha Rao' &`, in tmux or from cron" in without
    assert not machine.units.exists()
    mistyped = machine.sahaj("service", "install", coordinator.url, "--whe", "night")
    assert mistyped.returncode == 2 and "No such option: --whe" in mistyped.stderr


def test_a_saved_login_is_checked_and_not_written_down(machine: Machine, coordinator: StandIn, hub: StandIn):
    Path(machine.folder.parent / "token").write_text("hf_saved")
    role: dict[str, object] = {"role": "write"}
    hub.answers["GET /api/whoami-v2"] = Answer(body={"name": "asha", "auth": {"accessToken": role}})
    refused = machine.sahaj("service", "install", coordinator.url)
    assert refused.returncode == 28 and "the token from the saved login has write permission" in refused.stderr
    assert "hf auth login`, then install again" in refused.stderr and "HF_TOKEN" not in refused.stderr
    installed(coordinator.url, machine, "--allow-write-token")
    (unit,) = machine.units.iterdir()
    assert "hf_saved" not in unit.read_text()


def test_where_join_sh_has_installed_the_program_the_service_runs_it(
    machine: Machine, open_run: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(service_options, "installation", lambda: tmp_path / "program-little")
    service = service_options.service_for(open_run.url, ["--grace", "60"], {"grace": 60.0}, lambda line: None)
    assert service.words[:3] == (f"{open_run.url}/join.sh", "--grace", "60") and "curl" in service.script
    assert 31 not in service.final and service.seconds_to_stop == 90


def test_a_machine_without_systemd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SahajError, match=r"services need systemd or a Mac; .* `nohup sahaj join LINK &`"):
        services.manager_of_this_machine()
    monkeypatch.setattr(services, "command", lambda: "/opt/my programs/sahaj")
    with pytest.raises(SahajError, match="`nohup '/opt/my programs/sahaj' join LINK &`"):
        services.manager_of_this_machine()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert isinstance(services.manager_of_this_machine(), Launchd)


def test_a_service_waits_for_a_peer_that_runs(machine: Machine, open_run: StandIn, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(services, "in_use", lambda folder: True)
    with pytest.raises(SahajError, match="a peer runs there; stop it first"):
        services.install(open_run.url, [], {}, lambda line: None)
    monkeypatch.setattr(Systemd, "installed", lambda self: {name_of(open_run.url): machine.home})  # that is itself
    started: list[Service] = []
    monkeypatch.setattr(Systemd, "install", lambda self, service: started.append(service))
    services.install(open_run.url, [], {}, lambda line: None)
    assert [one.link for one in started] == [open_run.url]


def test_for_weeks_a_line_a_minute_is_enough():
    assert _view(JoinOptions(service=True))._plain_every == 60.0 > _view(JoinOptions())._plain_every


def test_states_in_words():
    at = "Thu 2026-11-26 17:00:01 UTC"
    assert services.described(State(runs=True)) == "running"
    assert services.described(State(runs=False, since=at)) == f"not running (since {at})"
    waits = services.described(State(runs=False, waits=True, status=22))
    assert waits == "stopped (coordinator away); it starts again within a minute"
    banned = services.described(State(runs=False, since=at, status=30))
    assert banned == f"stopped and will not restart: banned (since {at})"
    assert "the run is done, or it was stopped" in services.described(State(runs=False, status=0))


def test_secrets_of_the_environment_stay_out():
    given = {
        "PATH": "/opt/a@2/bin:/bin",
        "HF_TOKEN": "hf_secret",
        "HTTPS_PROXY": "http://asha:secret@proxy:3128",
        "HTTP_PROXY": "http://proxy:3128",
        "HF_HOME": "/data\nx",
    }
    kept, left_out = kept_environment(given)
    assert kept == {"PATH": given["PATH"], "HTTP_PROXY": given["HTTP_PROXY"]}
    assert sorted(left_out) == ["HF_HOME", "HTTPS_PROXY"]
