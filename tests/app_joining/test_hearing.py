"""Hearing the organizer over HTTP when the swarm tells nothing any more."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hivemind.p2p import PeerID

from app.joining import hearing
from app.joining.problems import CoordinatorAway
from swarm.gate import Gate
from swarm.notices import Notices, sign_notices
from swarm.passes import Authority, load_authority

PEER = PeerID(b"\x12\x20" + bytes(32))
RUN = "little"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hearing, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(hearing, "ASK_EVERY", 0.0)
    monkeypatch.setattr(hearing, "SILENCE", 0.5)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return load_authority(tmp_path / "authority.key")


def gate_of(authority: Authority, folder: Path, heard: float) -> Gate:
    own = authority.issue(RUN, "alice", PEER, 60.0)
    return Gate(folder, RUN, authority.public_key, own, sign_notices(Notices(time=heard), authority, RUN))


def listen(gate: Gate, ask: Callable[[], bytes], until: Callable[[], bool], at_most: float = 10.0) -> bool:
    stop = threading.Event()
    thread = threading.Thread(target=hearing.keep_hearing, args=(gate, ask, stop))
    thread.start()
    deadline = time.monotonic() + at_most
    while not until() and time.monotonic() < deadline:
        time.sleep(0.01)
    stop.set()
    thread.join(timeout=10)
    assert not thread.is_alive()
    return until()


def test_a_ban_is_heard_when_nothing_else_is(authority: Authority, tmp_path: Path):
    gate = gate_of(authority, tmp_path, heard=time.time() - 60.0)
    ban = sign_notices(Notices(time=time.time(), banned=frozenset({"alice"})), authority, RUN)
    answers: list[bytes | Exception] = [CoordinatorAway("nobody listens"), b"not notices", ban]

    def ask() -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert listen(gate, ask, lambda: gate.notices.bans("alice", str(PEER)))
    assert not answers


@pytest.mark.parametrize("clock", [-30.0, 0.0, 30.0])
def test_the_coordinator_is_left_in_peace_while_notices_arrive(
    authority: Authority, tmp_path: Path, clock: float, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(hearing, "SILENCE", 2.0)  # a busy disk takes its time for each notice
    gate = gate_of(authority, tmp_path, heard=time.time() + clock - 10.0)
    asked: list[bool] = []

    def ask() -> bytes:
        asked.append(True)
        return b""

    def newer() -> bool:
        gate.take_notice(sign_notices(Notices(time=time.time() + clock), authority, RUN))
        return bool(asked)

    assert not listen(gate, ask, newer, at_most=5.0)
