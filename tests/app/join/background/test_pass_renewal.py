"""The renewal thread with real passes, and a coordinator that comes and goes."""

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hivemind.p2p import PeerID

from app.join.background import pass_renewal as renewals
from app.join.background.pass_renewal import CoordinatorContact, Renewal
from app.join.problems import JoinProblem, ProblemKind
from swarm.access.gate import Gate
from swarm.access.join_messages import JoinAnswer
from swarm.access.notices import Notices, sign_notices
from swarm.access.passes import Authority, load_authority
from tests.support.waiting import wait_until

PEER = PeerID(b"\x12\x20" + bytes(32))
RUN = "little"
NOBODY = JoinProblem(ProblemKind.NO_ANSWER, "nobody answers over libp2p")


def answer_of(authority: Authority, announcement: str = "", lifetime: float = 60.0, peer: PeerID = PEER) -> JoinAnswer:
    own = authority.issue(RUN, "alice", peer, lifetime)
    signed = sign_notices(Notices(time=time.time(), announcement=announcement), authority, RUN)
    return JoinAnswer.model_validate(
        {
            "user": "alice",
            "pass": base64.b64encode(own.to_bytes()),
            "expires": own.expires,
            "authority": base64.b64encode(authority.public_key),
            "notices": base64.b64encode(signed),
            "initial_peers": [],
            "manifest": {"run": "", "fingerprint": "", "tokenizer": []},
        }
    )


class Told:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.ended: list[str] = []
        self.asked = self.asked_directly = 0


@pytest.fixture
def gate(authority: Authority, tmp_path: Path) -> Gate:
    first = sign_notices(Notices(time=1.0), authority, RUN)
    return Gate(tmp_path, RUN, authority.public_key, authority.issue(RUN, "alice", PEER, 60.0), first)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewals, "pause", lambda *_: 0.01)


def run(
    gate: Gate,
    answers: list[JoinAnswer | Exception],
    until: Callable[[Told], bool],
    direct: JoinAnswer | Exception = NOBODY,
) -> Told:
    told = Told()

    class Contact:
        def renew(self) -> JoinAnswer:
            told.asked += 1
            answer = answers[min(told.asked, len(answers)) - 1]
            if isinstance(answer, Exception):
                raise answer
            return answer

        def fetch_notices(self) -> bytes:
            raise AssertionError("fresh notices are in the gate")

        def renew_over_libp2p(self, dht: Any) -> JoinAnswer:
            told.asked_directly += 1
            if isinstance(direct, Exception):
                raise direct
            return direct

    renewal = Renewal(cast(CoordinatorContact, Contact()), gate, PEER, say=told.said.append, ended=told.ended.append)
    renewal.start(None)
    wait_until(lambda: until(told), lambda: f"such thing: {told.said}, {told.ended}, {told.asked}")
    renewal.stop()
    return told


def test_a_new_pass_and_new_notices_reach_the_gate(gate: Gate, authority: Authority):
    newer = answer_of(authority, "hello", lifetime=600.0)
    told = run(gate, [newer], lambda _: gate.own.expires == newer.expires)
    assert gate.notices.announcement == "hello"
    assert not told.said


def test_absence_and_return_are_told_once(gate: Gate, authority: Authority):
    away = JoinProblem(ProblemKind.COORDINATOR_AWAY, "nobody listens")
    answers: list[JoinAnswer | Exception] = [away, away, away, answer_of(authority)]
    told = run(gate, answers, lambda told: told.asked > 5)
    assert len(told.said) == 2
    assert "not answering; training continues" in told.said[0]
    assert "back" in told.said[1]


@pytest.mark.parametrize(
    "problem", [JoinProblem(ProblemKind.BANNED, "you are banned"), JoinProblem(ProblemKind.FINISHED, "it is over")]
)
def test_the_end(gate: Gate, problem: JoinProblem):
    told = run(gate, [problem], lambda told: bool(told.ended))
    assert told.ended == [str(problem)]
    assert told.asked == 1


def test_other_refusals_are_told_and_tried_again_over_http_alone(gate: Gate, authority: Authority):
    refusal = JoinProblem(ProblemKind.NOT_ALLOWED, "not on the list")
    told = run(gate, [refusal], lambda told: told.asked > 3, direct=answer_of(authority))
    assert told.said == [
        "Your permission to take part (the pass) could not be renewed (not on the list); training continues, and the "
        "program will try again."
    ]
    assert not told.ended and not told.asked_directly


def test_nothing_that_goes_wrong_ends_the_thread(gate: Gate, authority: Authority):
    run(gate, [RuntimeError("odd"), OSError(), answer_of(authority)], lambda told: told.asked > 4)


def test_a_pass_of_another_authority_or_for_another_peer_is_not_taken(gate: Gate, authority: Authority, tmp_path: Path):
    own = gate.own
    foreign = load_authority(tmp_path / "foreign.key")
    elsewhere = PeerID(b"\x12\x20" + bytes(31) + b"\x01")
    run(gate, [answer_of(foreign), answer_of(authority, peer=elsewhere)], lambda told: told.asked > 3)
    assert gate.own == own


@pytest.mark.parametrize("kind", ["COORDINATOR_AWAY", "NO_ANSWER", "NOT_A_COORDINATOR", "HUB_AWAY", "TOO_MANY"])
def test_what_cannot_be_renewed_over_http_is_renewed_over_libp2p(gate: Gate, authority: Authority, kind: str):
    newer = answer_of(authority, lifetime=600.0)
    told = run(
        gate, [JoinProblem(ProblemKind[kind], "no answer")], lambda _: gate.own.expires == newer.expires, direct=newer
    )
    assert not told.said


def test_a_ban_over_libp2p_is_the_end_and_other_refusals_leave_the_problem_of_http(gate: Gate):
    away, ban = JoinProblem(ProblemKind.HUB_AWAY, "the Hub is away"), JoinProblem(ProblemKind.BANNED, "you are banned")
    assert run(gate, [away], lambda told: bool(told.ended), direct=ban).ended == ["you are banned"]
    told = run(gate, [away], lambda told: told.asked > 3, direct=JoinProblem(ProblemKind.NOT_ALLOWED, "no"))
    assert told.said == [
        "Your permission to take part (the pass) could not be renewed (the Hub is away); training continues, and the "
        "program will try again."
    ]
