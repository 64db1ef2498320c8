"""`sahaj doctor` names each injected fault in its own line, and no other as a fault, within 20 seconds."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from app.join.peer_folder import IDENTITY
from swarm.access.passes import load_authority
from swarm.identity import load_identity
from swarm.version import program_version
from tests.app.doctor.conftest import (
    DESCRIPTION,
    coordinator,
    fingerprint_of,
    nobody_is_logged_in,
    opened,
    server,
    tokenizer_files,
)
from tests.app.join.stand_in import Answer, StandIn
from tests.support.waiting import PATIENCE

__all__ = ["coordinator", "fingerprint_of", "nobody_is_logged_in", "opened", "server", "tokenizer_files"]

pytestmark = pytest.mark.faults
LONGEST = 20.0  # seconds
PEER_ID = "QmQdReeSaZEjRPfQgJMeSZSnkLYLFc1P3RqMAqLJDDLTcL"
RELAY_ID = "QmSuZ11M4zTfBet8BUwVAwwuzAHphgUiYesG6qyznQUAmJ"
FAR_ID = "QmNtEvvDJaoK5CDjFJ2qezb8QLpPci95kFeTuiu1fHvQqg"
NOTHING: Mapping[str, str] = MappingProxyType({})
SILENT_NAME_SERVER = """
import socket
from app.cli import main
silent = socket.socket(type=socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 53))
main()
"""


@pytest.fixture
def run(opened: StandIn) -> Iterator[StandIn]:
    """A coordinator and its libp2p port; an open run, so that no Hub is asked."""
    opened.answers["GET /api/run"] = Answer(body=DESCRIPTION | {"version": program_version(), "access": {"open": True}})
    with socket.create_server(("127.0.0.1", 0)) as listening:
        peers_at(opened, listening.getsockname()[1])
        yield opened


def peers_at(run: StandIn, port: int, *others: str) -> None:
    """Let the coordinator name a peer at this port, and others."""
    giving: Callable = run.answers["POST /api/join"]  # type: ignore[assignment]

    def answer(heard: object) -> Answer:
        given = giving(heard)
        given.body["initial_peers"] = [f"/ip4/127.0.0.1/tcp/{port}/p2p/{PEER_ID}", *others]
        return given

    run.answers["POST /api/join"] = answer


def faults(link: str, *options: object, mark: str = "fault", **how: Any) -> dict[str, str]:
    """The lines of the report with this mark."""
    return {one["check"]: one["message"] for one in report(link, *options, **how) if one["mark"] == mark}


def report(
    link: str,
    *options: object,
    environment: Mapping[str, str] = NOTHING,
    program: Sequence[str] = ("-m", "app.cli"),
    shell: str = "",
) -> list[dict[str, str]]:
    """The report of a doctor that has started after these commands of a shell."""
    command = [sys.executable, *program, "doctor", link, "--json", *map(str, options)]
    if shell:
        command = ["unshare", "--net", "--mount", "sh", "-c", f'ip link set lo up && {shell} exec "$@"', "sh", *command]
    began = time.monotonic()
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=PATIENCE, env={**os.environ, **environment}
    )
    taken = time.monotonic() - began
    if done.returncode and not done.stdout:
        if shell and ("Operation not permitted" in done.stderr or "permission denied" in done.stderr):
            pytest.skip(f"namespaces need root: {done.stderr.strip()}")
        pytest.fail(done.stderr)
    told = json.loads(done.stdout)
    assert "Traceback" not in done.stderr
    assert taken < LONGEST, f"{taken:.1f} s"
    found: list[dict[str, str]] = told["checks"]
    assert done.returncode == (1 if any(one["mark"] == "fault" for one in found) else 0)
    return found


def test_no_fault(run: StandIn):
    assert not faults(run.url)


def test_a_wrong_clock(run: StandIn):
    run.clock_offset = 300.0
    found = faults(run.url)
    assert set(found) == {"clock"}
    assert "5 minutes behind the coordinator's; correct the clock" in found["clock"]


@pytest.mark.parametrize("resolver", ["192.0.2.53", "127.0.0.1"])
def test_no_dns(resolver: str, tmp_path: Path):
    (tmp_path / "resolv.conf").write_text(f"nameserver {resolver}\n")
    found = faults("https://run.example.org", shell=f"mount --bind {tmp_path}/resolv.conf /etc/resolv.conf &&")
    assert set(found) == {"dns"}
    assert "the name servers of this machine do not answer" in found["dns"]


def test_a_name_server_that_drops_questions(tmp_path: Path):
    """Its queries are never answered: the socket that they go to is not read."""
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:30\n")
    found = faults(
        "https://run.example.org",
        shell=f"mount --bind {tmp_path}/resolv.conf /etc/resolv.conf &&",
        program=("-c", SILENT_NAME_SERVER),
    )
    assert set(found) == {"dns"}
    assert "the name servers of this machine do not answer" in found["dns"]


def test_a_blocked_port(run: StandIn):
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as full,
        contextlib.ExitStack() as waiting,
    ):
        for _ in range(3):  # what comes next is dropped, as by a firewall
            caller = waiting.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(full.getsockname())
        port = full.getsockname()[1]
        peers_at(run, port)
        found = faults(run.url)
    assert set(found) == {"peers"}
    assert f"{PEER_ID}: no answer" in found["peers"] and f"outgoing TCP to port {port}" in found["peers"]


def test_a_dead_peer(run: StandIn):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        peers_at(run, bound.getsockname()[1])
        found = faults(run.url)
    assert set(found) == {"peers"}
    assert "nothing is listening there" in found["peers"]


def test_a_dead_relay(run: StandIn):
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        relay = f"/ip4/127.0.0.1/tcp/{bound.getsockname()[1]}/p2p/{RELAY_ID}"
        peers_at(run, listening.getsockname()[1], f"{relay}/p2p-circuit/p2p/{FAR_ID}")
        found = faults(run.url, mark="warning")
    assert set(found) == {"peers"}, "others can still be reached"
    assert f"{relay}/p2p-circuit/p2p/{FAR_ID}: nothing is listening there" in found["peers"]


def test_an_expired_pass(run: StandIn, tmp_path: Path):
    """A process trains with it, and the coordinator gives no other."""
    folder = tmp_path / "peer"
    identity = load_identity(folder / IDENTITY)
    authority = load_authority(tmp_path / "authority.key")
    kept = folder / "little-0123456789abcdef" / "pass"
    kept.parent.mkdir()
    kept.write_bytes(authority.issue("little", "asha", identity.peer_id, -7200.0).to_bytes())
    found = faults(run.url, "--state", folder)
    identity.lock.close()
    assert set(found) == {"pass"}
    assert "expired 2 hours ago" in found["pass"] and "join again" in found["pass"]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts a file system of so many bytes as the cache of this user."""
    place = tmp_path / "small"
    place.mkdir()
    mount = shutil.which("mount")

    def make(size: int) -> Path:
        if mount is None:
            pytest.skip("there is no mount command here")
        made = subprocess.run(
            [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], check=False, capture_output=True, text=True
        )
        if made.returncode:
            pytest.skip(f"mounting needs root: {made.stderr.strip()}")
        return place

    yield make
    subprocess.run(["umount", "--lazy", str(place)], check=False, capture_output=True)


def test_a_home_that_cannot_be_written(run: StandIn, mounted: Callable[..., Path]):
    home = mounted(1 << 30)
    subprocess.run(["mount", "-o", "remount,ro", home], check=True)
    found = faults(run.url, environment={"XDG_CACHE_HOME": str(home)})
    assert set(found) == {"disk"}
    assert "Read-only file system); choose another folder with --state" in found["disk"]


def test_a_full_disk(run: StandIn, mounted: Callable[..., Path]):
    home = mounted(1 << 20)
    with (home / "filling").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(64 * 1024))
    found = faults(run.url, environment={"XDG_CACHE_HOME": str(home)})
    assert set(found) == {"disk"}
    assert "the disk is full; free some space" in found["disk"]


def test_a_disk_that_is_nearly_full(run: StandIn, mounted: Callable[..., Path]):
    found = faults(run.url, environment={"XDG_CACHE_HOME": str(mounted(8 << 20))})
    assert set(found) == {"disk"}
    assert "200 MB is needed" in found["disk"]


def test_another_version(run: StandIn):
    run.answers["GET /api/run"] = Answer(body=DESCRIPTION | {"version": "7.2.0", "access": {"open": True}})
    found = faults(run.url)
    assert set(found) == {"version"}
    assert f"works with Sahaj 7.2.0, not with {program_version()}; install that version" in found["version"]


def test_a_proxy_that_refuses():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        proxy = f"127.0.0.1:{bound.getsockname()[1]}"
        found = faults("https://192.0.2.7", environment={"HTTPS_PROXY": f"http://{proxy}"})
    assert set(found) == {"proxy"}
    assert (
        f"the proxy {proxy} (HTTPS_PROXY) does not let this program through (nothing is listening there)"
        in found["proxy"]
    )


def test_no_route():
    found = faults("http://192.0.2.7:8080", shell=" ")
    assert set(found) == {"coordinator"}
    assert "no network route to it from this machine" in found["coordinator"]


def test_a_broken_torch(run: StandIn, tmp_path: Path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('libc10.so: cannot open shared object file')")
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    found = faults(run.url, environment={"PYTHONPATH": path})
    assert set(found) == {"torch"}
    assert "ImportError: libc10.so" in found["torch"] and "install the program again" in found["torch"]
