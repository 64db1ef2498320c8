"""Notices are fetched over HTTP when none come through the swarm."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hivemind.p2p import PeerID

from app.join.background import pass_renewal as renewal
from app.join.problems import JoinProblem, ProblemKind
from swarm.access.gate import Gate
from swarm.access.notices import Notices, sign_notices
from swarm.access.passes import Authority

PEER = PeerID(b"\x12\x20" + bytes(32))
RUN = "little"


def gate_of(authority: Authority, folder: Path, heard: float) -> Gate:
    own = authority.issue(RUN, "alice", PEER, 60.0)
    return Gate(folder, RUN, authority.public_key, own, sign_notices(Notices(time=heard), authority, RUN))


class Looks:
    """Instead of an event that ends it: so many looks, between which only the clock moves, and a thing happens."""

    def __init__(self, count: int, meanwhile: Callable[[float], None]):
        self._left, self._meanwhile, self.now = count, meanwhile, 1000.0

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        self._left -= 1
        self._meanwhile(self.now)
        return self._left < 0

    def monotonic(self) -> float:
        return self.now


def listen(
    gate: Gate,
    ask: Callable[[], bytes],
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[float], None] = lambda now: None,
) -> None:
    """For five minutes."""
    looks: Any = Looks(int(300 / renewal.NOTICES_CHECK_EVERY), meanwhile)
    monkeypatch.setattr(renewal, "time", looks)
    renewal.keep_fetching_notices(gate, ask, looks)


def test_a_ban_is_fetched_when_nothing_else_comes(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    gate = gate_of(authority, tmp_path, heard=time.time() - 60.0)
    ban = sign_notices(Notices(time=time.time(), banned=frozenset({"alice"})), authority, RUN)
    answers: list[bytes | Exception] = [
        JoinProblem(ProblemKind.COORDINATOR_AWAY, "nobody listens"),
        b"not notices",
        ban,
    ]

    def ask() -> bytes:
        answer = answers.pop(0) if answers else ban
        if isinstance(answer, Exception):
            raise answer
        return answer

    listen(gate, ask, monkeypatch)
    assert gate.notices.bans("alice", str(PEER))
    assert not answers


@pytest.mark.parametrize("clock", [-30.0, 0.0, 30.0])
def test_the_coordinator_is_left_in_peace_while_notices_arrive(
    authority: Authority, tmp_path: Path, clock: float, monkeypatch: pytest.MonkeyPatch
):
    gate = gate_of(authority, tmp_path, heard=time.time() + clock - 10.0)
    asked: list[bool] = []

    def ask() -> bytes:
        asked.append(True)
        return b""

    def every_twenty_seconds(now: float) -> None:
        if now % 20 == 0:
            gate.take_notice(sign_notices(Notices(time=time.time() + clock), authority, RUN))

    listen(gate, ask, monkeypatch, every_twenty_seconds)
    assert not asked
