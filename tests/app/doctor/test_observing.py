"""What is seen through torch and hivemind, of passes on the disk, and of a coordinator that gives one."""

import fcntl
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.doctor import asking
from app.doctor.asking import Broken, PeerProcess
from app.doctor.background import outcome, start
from app.doctor.examination import results
from app.doctor.machine import TokenSeen, look_for_token, try_to_write
from app.doctor.observing import Observed, RunSeen, ask_for_pass, observe, why_not_ask
from app.doctor.peer_process import PassSeen, PeerSeen, look_at_passes, look_at_peer, look_at_torch
from app.doctor.results import Check, Mark, TooLate
from app.join.hub_token import HubToken
from app.join.peer_folder import IDENTITY, PEERS
from app.join.problems import JoinProblem, ProblemKind
from app.join.volunteer import user_name
from swarm.access.passes import Authority, load_authority
from swarm.errors import StorageError, SwarmError
from swarm.identity import load_identity
from swarm.version import program_version
from tests.app.doctor.conftest import DESCRIPTION, described, with_link
from tests.app.join.stand_in import Answer, StandIn
from tests.support.waiting import PATIENCE

NEVER = 0.1  # seconds to wait for what does not come


@pytest.fixture
def peer(tmp_path: Path, authority: Authority) -> Path:
    """The folder of a peer whose pass has expired."""
    folder = tmp_path / "peer"
    identity = load_identity(folder / IDENTITY)
    identity.lock.close()
    run = folder / "little-0123456789abcdef"
    run.mkdir()
    (run / "pass").write_bytes(authority.issue("little", "asha", identity.peer_id, -60.0).to_bytes())
    return folder


def test_the_pass_of_a_peer_that_runs(peer: Path, authority: Authority, tmp_path: Path):
    other = load_authority(tmp_path / "other.key").public_key
    assert not look_at_passes([peer, tmp_path / "nowhere"], "little", authority.public_key), "nobody trains with it"
    with (peer / IDENTITY).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for key, good in ((authority.public_key, True), (other, False), (b"", None)):
            (seen,) = look_at_passes([peer], "little", key)
            assert seen == PassSeen("asha", seen.expires, good) and seen.expires < time.time()
        next(peer.glob("*/pass")).write_bytes(b"\x00")
        assert not look_at_passes([peer], "little", authority.public_key)


def test_who_a_peer_is(peer: Path, tmp_path: Path):
    address = "/ip4/192.0.2.1/tcp/1/p2p/QmQdReeSaZEjRPfQgJMeSZSnkLYLFc1P3RqMAqLJDDLTcL"
    (next(peer.glob("*/pass")).parent / PEERS).write_text(f'["{address}"]')
    first, second = look_at_peer(peer), look_at_peer(peer)
    assert first == second and first.addresses == [address]
    assert look_at_peer(tmp_path / "nowhere").peer_id != first.peer_id
    assert not (tmp_path / "nowhere").exists()
    (peer / IDENTITY).write_bytes(b"\x00")
    with pytest.raises(SwarmError, match="not an identity file; remove it"):
        look_at_peer(peer)


def broken(folder: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch that does this when it is imported."""
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(code)
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise ImportError('libc10.so: cannot open shared object file')", "ImportError: libc10.so: cannot open"),
        ("import os; os.abort()", "killed by SIGABRT"),
        ("import os; os._exit(3)", "exited with status 3"),
    ],
)
def test_a_broken_torch(code: str, words: str, observed: Observed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    broken(tmp_path, code, monkeypatch)
    with PeerProcess() as process, pytest.raises(Broken, match=words) as told:
        process.ask(time.monotonic() + PATIENCE, look_at_torch)
    found = {one.check: one for one in results(replace(observed, torch=told.value), 0.0)}
    assert found[Check.TORCH].mark is Mark.FAULT
    assert words in found[Check.TORCH].message


def test_ctrl_c_ends_this_process_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(asking, "ENDS_WITHIN", PATIENCE)
    here = signal.getsignal(signal.SIGINT)
    with PeerProcess() as process:
        assert process.ask(time.monotonic() + PATIENCE, signal.getsignal, signal.SIGINT) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) == here
    assert process._process.exitcode == 0, "it was not killed, which leaks the semaphores that its libraries have made"


def test_a_torch_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    broken(tmp_path, "import threading; threading.Event().wait()", monkeypatch)
    with PeerProcess() as process, pytest.raises(TooLate):
        process.ask(time.monotonic() + NEVER, look_at_torch)


def test_a_task_that_hangs_or_fails():
    ended = threading.Event()
    hanging = start(ended.wait)
    with pytest.raises(TooLate):
        outcome(hanging, time.monotonic() + NEVER)
    ended.set()
    assert outcome(hanging, time.monotonic() + PATIENCE)
    with pytest.raises(TimeoutError, match="of its own"):
        outcome(start(lambda: _raise(TimeoutError("of its own"))), time.monotonic() + PATIENCE)


def _raise(error: Exception) -> None:
    raise error


def test_a_folder_that_can_be_made_and_one_that_cannot(tmp_path: Path):
    assert try_to_write(tmp_path / "new" / "peer") is None
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    told = try_to_write(tmp_path / "file" / "peer")
    assert isinstance(told, StorageError)
    assert "identity.key: could not be saved (Not a directory); choose another folder" in str(told)


def test_a_token_that_the_hub_refuses(hub: StandIn, monkeypatch: pytest.MonkeyPatch):
    assert look_for_token().token is None
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.answers["GET /api/whoami-v2"] = Answer(401)
    seen = look_for_token()
    assert seen.problem is not None and seen.problem.kind is ProblemKind.TOKEN_REJECTED
    assert "hf_secret" not in repr(seen) + str(seen.problem)
    hub.answers["GET /api/whoami-v2"] = Answer(body={"name": "asha", "auth": {"accessToken": {"role": "read"}}})
    assert look_for_token().user == "asha"
    monkeypatch.setenv("HF_TOKEN", "two words")
    assert (seen := look_for_token()).problem is not None and "not a token" in str(seen.problem)


WHO = PeerSeen("Qm", b"key", [])


@pytest.mark.parametrize(
    ("changes", "peer", "words"),
    [
        ({}, WHO, ""),
        ({"run": JoinProblem(ProblemKind.NO_ANSWER, "x")}, WHO, "does not answer"),
        ({"run": described(version="9.9.9")}, WHO, "see version"),
        ({"url": "http://192.0.2.7"}, WHO, "see encryption"),
        ({"url": "http://192.0.2.7", "run": described(access={"open": True})}, WHO, ""),
        ({}, SwarmError("not an identity file"), "not an identity file"),
    ],
)
def test_when_a_pass_is_asked_for(
    observed: Observed, changes: dict[str, object], peer: PeerSeen | Exception, words: str
):
    seen = with_link(observed, **changes)
    assert isinstance(seen.run, RunSeen)
    told = why_not_ask(seen.run, seen, peer)
    assert words in str(told) and bool(told) == bool(words)


@pytest.mark.parametrize("is_open", [True, False])
def test_a_pass_is_asked_for_with_the_saved_token_as_joining_does(opened: StandIn, is_open: bool):
    token, run = HubToken("hf_harmless", "the saved login"), described(access={"open": is_open})
    ask_for_pass(opened.url, WHO, TokenSeen(token, "asha"), run)
    assert (opened.heard[-1].bearer, opened.heard[-1].body["name"]) == ("hf_harmless", None)


@pytest.mark.parametrize("refused", [False, True])
def test_a_token_that_nobody_has_or_the_hub_refuses_is_not_shown_to_an_open_run(opened: StandIn, refused: bool):
    problem = JoinProblem(ProblemKind.TOKEN_REJECTED, "x")
    token = TokenSeen(HubToken("hf_secret", "HF_TOKEN"), problem=problem) if refused else TokenSeen(None)
    ask_for_pass(opened.url, WHO, token, described(access={"open": True}))
    assert (opened.heard[-1].bearer, opened.heard[-1].body["name"]) == (None, user_name())


def test_a_run_from_the_link_to_a_pass(opened: StandIn, tmp_path: Path):
    """A stand-in for an open run, whose peers are one that listens; torch and hivemind are real."""
    opened.answers["GET /api/run"] = Answer(body=DESCRIPTION | {"version": program_version(), "access": {"open": True}})
    giving: Callable = opened.answers["POST /api/join"]  # type: ignore[assignment]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"/ip4/127.0.0.1/tcp/{listening.getsockname()[1]}/p2p/QmQdReeSaZEjRPfQgJMeSZSnkLYLFc1P3RqMAqLJDDLTcL"

        def answer(heard: object) -> Answer:
            given = giving(heard)
            given.body["initial_peers"] = [address]
            return given

        opened.answers["POST /api/join"] = answer
        seen = observe(opened.url, tmp_path / "peer", PATIENCE)
    found = {one.check: one for one in results(seen, time.time())}
    wrong = {one.check: one.message for one in found.values() if one.mark in (Mark.FAULT, Mark.SKIPPED)}
    assert not wrong, wrong
    assert "gives one to ~" in found[Check.PASS].message
    assert "one known peer" in found[Check.PEERS].message
    assert not (tmp_path / "peer").exists(), "nothing is written"
    assert [heard.bearer for heard in opened.heard] == [None, None]
