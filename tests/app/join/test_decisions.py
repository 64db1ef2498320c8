"""Pure decisions: what is said about a machine, when a pass is renewed, who can be reached, who is remembered."""

import fcntl
import time
from dataclasses import replace
from pathlib import Path

import pytest

from app.join.background.pass_renewal import LONGEST_PAUSE, may_follow, pause
from app.join.machine_checks import (
    Computer,
    Finding,
    addresses_towards,
    findings,
    needs_client_mode,
    plan,
    refuse_if_fatal,
)
from app.join.peer_folder import IDENTITY, cache_folder, default_folder
from app.join.problems import JoinProblem, ProblemKind, referring_to_doctor
from swarm.dht import remembered_peers
from swarm.errors import NotJoined, SahajError, StorageError, SwarmError
from swarm.run_file import ReleaseSection, parse_run
from tests.support.problems import raises_problem

GB = 1e9
ROOMY = Computer(50 * GB, 16 * GB, 16 * GB, 8 * GB, "cuda", 16 * GB)
LARGE = parse_run({"name": "large", "data": {"train": [{"hub": "a/b"}]}}, Path("run.yaml"))


def test_nothing_is_said_about_a_roomy_machine():
    assert not list(findings(LARGE, ROOMY))


@pytest.mark.parametrize(
    ("computer", "word", "fatal"),
    [
        (replace(ROOMY, disk_free=1e6, folder=Path("/peers/asha")), "The disk of /peers/asha has 1 MB free", True),
        (replace(ROOMY, memory_total=1 * GB, memory_available=1 * GB), "use a machine with more memory", True),
        (replace(ROOMY, memory_available=1 * GB), "free", False),
        (replace(ROOMY, shared_memory_free=64e6), "--shm-size", False),
        (replace(ROOMY, device_memory=0.1 * GB), "--device cpu", False),
        (replace(ROOMY, device="cpu", device_memory=None), "No GPU", False),
    ],
)
def test_each_shortage_has_its_line(computer: Computer, word: str, fatal: bool):
    [finding] = findings(LARGE, computer)
    assert word in finding.message
    assert finding.fatal == fatal
    if fatal:
        with raises_problem(ProblemKind.MACHINE_TOO_SMALL, match=word):
            refuse_if_fatal([Finding("small"), finding])
    else:
        refuse_if_fatal([finding])


def test_the_plan_says_who_and_what():
    lines = plan(LARGE, "alice", verified=True, client_mode=False)
    assert "Joining large" in lines[0]
    assert any("alice" in line and "unverified" not in line for line in lines)
    assert any("Ctrl-C" in line for line in lines)
    assert any("device, figures and hours" in line and "address and gradients" in line for line in lines), (
        "it is said what others get to see"
    )
    lines = plan(LARGE, "~bob", verified=False, client_mode=True)
    assert any("unverified" in line and "HF_TOKEN" in line and "--name" in line for line in lines)
    assert any("client mode" in line for line in lines)


@pytest.mark.parametrize(
    ("contributors", "verified", "told"),
    [("none", True, False), ("verified", True, True), ("verified", False, False), ("all", False, True)],
)
def test_whoever_will_be_named_in_a_model_card_is_told_before(contributors: str, verified: bool, told: bool):
    release = ReleaseSection.model_validate({"repo": "river/boats", "contributors": contributors})
    run = LARGE.model_copy(update={"release": release})
    said = [one for one in plan(run, "alice", verified=verified, client_mode=False) if "public model card" in one]
    assert len(said) == told and all("river/boats" in one and "To stay out" in one for one in said)
    assert ReleaseSection.model_validate({"repo": "river/boats"}).contributors == "none", "unless it was decided"


def test_a_pass_is_renewed_at_half_of_its_time():
    now = time.time()
    assert pause(now + 3600, now, 0, 0.5) == pytest.approx(1800)
    assert pause(now - 5, now, 0, 0.5) == 1


def test_a_coordinator_that_is_away_is_asked_ever_less_often():
    waits = [pause(0, 0, failures, 1.0) for failures in range(1, 20)]
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_PAUSE
    assert all(1 <= pause(0, 0, failures, 0.0) <= LONGEST_PAUSE for failures in (1, 5, 1000))


@pytest.mark.parametrize(
    ("own", "coordinator", "client_mode"),
    [
        ("127.0.0.1", "127.0.0.1", False),
        ("::1", "::1", False),
        ("8.8.8.8", "1.1.1.1", False),
        ("192.168.1.5", "192.168.1.9", False),
        ("192.168.1.5", "8.8.8.8", True),
        ("172.17.0.2", "192.168.1.9", True),
        ("10.0.0.1", "2001:4860::1", True),
        ("", "", True),
    ],
)
def test_who_can_be_reached(own: str, coordinator: str, client_mode: bool):
    assert needs_client_mode(own, coordinator) == client_mode


def test_the_way_to_this_machine_is_loopback():
    assert addresses_towards("http://127.0.0.1:8080") == ("127.0.0.1", "127.0.0.1")
    assert addresses_towards("http://no-such-host.invalid") == ("", "")


def test_peers_are_remembered(tmp_path: Path):
    path = tmp_path / "peers.json"
    assert remembered_peers.recall(path) == []
    first, second = "QmQdReeSaZEjRPfQgJMeSZSnkLYLFc1P3RqMAqLJDDLTcL", "QmSuZ11M4zTfBet8BUwVAwwuzAHphgUiYesG6qyznQUAmJ"
    remembered_peers.remember(path, [f"/ip4/192.0.2.1/tcp/1/p2p/{first}", f"/ip4/192.0.2.2/tcp/1/p2p/{second}"])
    merged = remembered_peers.merge([f"/ip4/192.0.2.9/tcp/1/p2p/{first}"], remembered_peers.recall(path))
    assert merged == [f"/ip4/192.0.2.9/tcp/1/p2p/{first}", f"/ip4/192.0.2.2/tcp/1/p2p/{second}"]


@pytest.mark.parametrize("content", ["", "{}", "[1, null]", '["no address", "/ip4/1.2.3.4/tcp/1", "/x/p2p/Q"]', "\x00"])
def test_a_spoilt_memory_is_forgotten(tmp_path: Path, content: str):
    path = tmp_path / "peers.json"
    path.write_text(content)
    assert remembered_peers.recall(path) == []


def test_only_so_many_are_remembered():
    many = [f"/ip4/192.0.2.1/tcp/{port}/p2p/Qm{port}" for port in range(100)]
    assert len(remembered_peers.merge(many[:2], many)) == remembered_peers.MOST


def test_each_process_has_a_home_of_its_own():
    first = default_folder("http://127.0.0.1:8080")
    assert first == cache_folder() / "127.0.0.1-8080"
    first.mkdir(parents=True)
    (first / IDENTITY).touch()
    assert default_folder("http://127.0.0.1:8080") == first
    with (first / IDENTITY).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert default_folder("http://127.0.0.1:8080") == first.with_name("127.0.0.1-8080-2")
    assert default_folder("http://../..") == cache_folder() / "run"
    assert default_folder("http://example.org/../../up").parent == cache_folder()


@pytest.mark.parametrize(
    ("link", "told", "follows"),
    [
        ("https://run.example.org", "https://other.example.org", True),
        ("https://run.example.org", "https://run.example.org/", False),  # the same
        ("https://run.example.org", "", False),
        ("https://run.example.org", "http://other.example.org", False),  # a token would be read on the way
        ("http://run.example.org", "http://other.example.org", True),
        ("http://run.example.org", "http://127.0.0.1:8080", False),  # another machine here than there
        ("http://run.example.org", "https://192.168.1.7", False),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8081", True),
    ],
)
def test_who_follows_a_coordinator_that_has_moved(link: str, told: str, follows: bool):
    assert may_follow(link, told) is follows


@pytest.mark.parametrize(
    ("error", "referred"),
    [
        (JoinProblem(ProblemKind.COORDINATOR_AWAY, "nobody listens"), True),
        (JoinProblem(ProblemKind.CLOCK_WRONG, "the clock"), True),
        (NotJoined("no initial peer answers"), True),
        (SwarmError("another process on this machine is this peer"), False),
        (JoinProblem(ProblemKind.BANNED, "asha is banned"), False),
        (StorageError("the disk is full"), False),
    ],
)
def test_who_is_referred_to_the_doctor(error: SahajError, referred: bool):
    before = str(error)
    with pytest.raises(type(error)), referring_to_doctor("run.example.org"):
        raise error
    assert str(error) == before + ("; `sahaj doctor run.example.org` says more" if referred else "")
