"""Who is there, who is missed, and who fell back, by what peers tell of their progress."""

from typing import Any

import pytest
from hivemind.utils import ValueWithExpiration

from trainer.averaging import company
from trainer.averaging.company import LATELY, Company

LIFETIME = 30.0  # seconds
NOW = 1000.0
ROUND = 60.0  # seconds


def told(step: int, *, ago: float = 0.0, client_mode: bool = False, peer_id: bytes = b"a") -> Any:
    progress = {
        "peer_id": peer_id,
        "epoch": step,
        "samples_accumulated": 1,
        "samples_per_second": 1.0,
        "time": NOW - ago,
        "client_mode": client_mode,
    }
    return ValueWithExpiration(progress, NOW - ago + LIFETIME)


@pytest.fixture
def others() -> Company:
    return Company(LIFETIME, ROUND)


def test_a_group_is_made_of_those_who_told_lately_that_they_are_here(others: Company):
    records = [told(5), told(6), told(4), told(5, ago=LATELY + 1), told(5, ago=LATELY - 1)]
    others.look(dict(zip([b"a", b"b", b"c", b"d", b"e"], records, strict=True)), ())
    assert others.at(5, NOW) == 3
    assert len(others.others) == 5  # all of them count until their records expire


@pytest.mark.parametrize(("steps", "disputed"), [([6, 5], True), ([6, 6, 5], False), ([6], False), ([6, 1, 2], False)])
def test_a_step_that_one_of_several_has_taken_is_disputed(others: Company, steps: list[int], disputed: bool):
    others.look({bytes([number]): told(step) for number, step in enumerate(steps)}, ())
    assert others.disputes(6, NOW) == disputed


def test_who_went_silent_disputes_nothing(others: Company):
    others.look({b"a": told(6), b"b": told(5, ago=LATELY + 1)}, ())
    assert not others.disputes(6, NOW)


def test_who_is_gone_without_a_goodbye_is_missed_until_somebody_is_there(others: Company):
    assert not others.is_gone  # nobody ever was
    others.look({b"a": told(5), b"b": told(5)}, ())
    assert not others.is_gone
    others.look({}, ())
    assert others.is_gone
    others.look({b"c": told(9)}, ())
    assert not others.is_gone
    others.look({}, {b"c"})
    assert not others.is_gone


def test_one_who_says_goodbye_does_not_excuse_another(others: Company):
    others.look({b"a": told(5), b"b": told(5)}, ())
    others.look({}, {b"a"})
    assert others.is_gone
    others.look({}, {b"b"})
    assert not others.is_gone


def test_who_left_long_before_the_last_one_is_not_missed(others: Company):
    others.look({b"a": told(5), b"b": told(5)}, ())
    others.look({b"b": told(7)}, ())  # the other one was killed
    others.look({}, {b"b"})
    assert not others.is_gone


def test_holders_of_the_state_may_be_a_step_behind_while_a_round_lasts(
    others: Company, monkeypatch: pytest.MonkeyPatch
):
    now = [0.0]
    monkeypatch.setattr(company.time, "monotonic", lambda: now[0])
    others.look({b"a": told(4), b"b": told(9, client_mode=True)}, ())
    assert [others.fell_back(step) for step in (4, 5, 6)] == [False, False, True]
    assert not others.fell_back(5)
    now[0] = ROUND
    assert not others.fell_back(5)
    now[0] = ROUND + 1
    assert others.fell_back(5)
    others.look({b"a": told(5)}, ())
    assert not others.fell_back(5)
    others.look({b"a": told(5)}, ())
    now[0] += 10 * ROUND
    assert not others.fell_back(6)  # this is another step


def test_where_nobody_holds_the_state_nobody_fell_back(others: Company):
    others.look({b"b": told(3, client_mode=True)}, ())
    assert not others.fell_back(9)
