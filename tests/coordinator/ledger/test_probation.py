"""Who has a lower share of a mean, and for how long."""

import random
from collections.abc import Callable

import pytest

from averaging.log.header import Ballot, Header, HeaderKind, Member, Part
from coordinator.ledger.probation import AUDITS, ENOUGH, FORGET, Doubt, Probation
from tests.coordinator.ledger.test_worth import WEIGHTS, cosines

HEAVY = "6.0"
USERS = {session: f"user-{session[0]}" for session in WEIGHTS}


def step(number: int, **loud: float) -> Header:
    members = tuple(Member(one, f"user-{one[0]}", (number,), weight, True) for one, weight in WEIGHTS.items())
    part = Part("coordinator.0", ("digest",), tuple((f"{name[-1]}.0", times) for name, times in loud.items()))
    return Header("", number, HeaderKind.UPDATE, "", Ballot(1, ""), members, (part,))


def followed(
    lie: Callable[[float, random.Random], float], audits: int, probation: Probation | None = None
) -> tuple[Probation, list[Doubt]]:
    probation, drawn, found = probation or Probation(), random.Random(3), list[Doubt]()
    for number in range(1, audits + 1):
        agreement = cosines(drawn)
        agreement[HEAVY] = lie(agreement[HEAVY], drawn)
        found += probation.after_step(step(number)) + probation.after_audit(
            step(number), list(agreement.items()), USERS
        )
    return probation, found


@pytest.mark.parametrize(
    ("lie", "is_doubted"),
    [
        pytest.param(lambda honest, drawn: honest, False, id="honest"),
        pytest.param(lambda honest, drawn: drawn.gauss(0.0, 0.005), True, id="noise"),
        pytest.param(lambda honest, drawn: -honest, True, id="turned around"),
        pytest.param(lambda honest, drawn: honest - 0.4, True, id="the wrong words"),
    ],
)
def test_who_agrees_less_than_those_who_bring_less_is_doubted_before_it_is_flagged(
    lie: Callable[[float, random.Random], float], is_doubted: bool
) -> None:
    probation, found = followed(lie, AUDITS)
    assert probation.users == (frozenset({"user-6"}) if is_doubted else frozenset())
    assert [(one.user, one.session) for one in found] == ([("user-6", HEAVY)] if is_doubted else [])
    assert all("agree less" in one.what for one in found)


def test_who_is_of_use_again_is_trusted_again() -> None:
    probation, _ = followed(lambda honest, drawn: -honest, AUDITS)
    assert probation.users
    probation, found = followed(lambda honest, drawn: honest, AUDITS, probation)
    assert not probation.users and not found


def test_who_is_loud_step_after_step_is_doubted_until_that_is_over() -> None:
    probation = Probation()
    probation.after_audit(step(1), [(session, 0.1) for session in WEIGHTS], USERS)
    doubts = [probation.after_step(step(number, of_6=2.8)) for number in range(1, ENOUGH + 1)]
    assert [len(one) for one in doubts] == [0] * (ENOUGH - 1) + [1]
    assert doubts[-1][0].what == "sends gradients 2.8 times as large as its samples explain"
    assert probation.users == {"user-6"}
    for number in range(ENOUGH):
        assert not probation.after_step(step(100 + number))
    assert not probation.users


def test_who_has_no_more_than_the_lower_bound_is_not_doubted() -> None:
    probation = Probation()
    probation.after_audit(step(1), [(session, 0.1) for session in WEIGHTS], USERS)
    for number in range(1, 3 * ENOUGH):
        assert not probation.after_step(step(number, of_0=50.0))
    assert WEIGHTS["0.0"] < 0.05 * sum(WEIGHTS.values())


def test_another_session_of_the_peer_changes_nothing_and_long_absence_all() -> None:
    probation, _ = followed(lambda honest, drawn: -honest, AUDITS)
    header = step(AUDITS + 1)
    again = tuple(
        Member("6.1", one.user, (1,), one.weight, True) if one.session == HEAVY else one for one in header.members
    )
    probation.after_step(Header("", AUDITS + 1, HeaderKind.UPDATE, "", Ballot(1, ""), again, header.parts))
    assert probation.users == {"user-6"}
    others = tuple(one for one in header.members if one.session != HEAVY)
    late = AUDITS + 1 + FORGET
    probation.after_step(Header("", late, HeaderKind.UPDATE, "", Ballot(1, ""), others, header.parts))
    assert not probation.users


def test_a_name_that_only_a_header_says_is_not_believed() -> None:
    probation = Probation()
    for number in range(1, 3 * ENOUGH):
        assert not probation.after_step(step(number, of_6=50.0))
    assert not probation.users


def test_an_honest_one_that_a_liar_among_the_others_makes_point_away_is_not_doubted() -> None:
    probation, drawn = Probation(), random.Random(3)
    for number in range(1, AUDITS):
        agreement = {session: drawn.gauss(0.1, 0.02) for session in WEIGHTS}
        agreement |= {HEAVY: drawn.gauss(-0.5, 0.1), "7.0": drawn.gauss(0.1 if probation.users else -0.1, 0.02)}
        probation.after_step(step(number))
        probation.after_audit(step(number), list(agreement.items()), USERS)
    assert probation.users == {"user-6"}


def test_what_one_header_says_puts_nobody_on_probation() -> None:
    """A convener can write anything into it; a text of one's own keeps nobody there either."""
    probation, drawn = Probation(), random.Random(3)
    for number in range(1, 3 * AUDITS):
        agreement = {session: drawn.gauss(0.2, 0.05) for session in WEIGHTS} | {HEAVY: drawn.gauss(0.15, 0.05)}
        probation.after_step(step(number, of_6=1e6) if number % AUDITS == 10 else step(number))
        probation.after_audit(step(number), list(agreement.items()), USERS)
        assert not probation.users


def test_devices_of_a_user_are_doubted_by_what_they_bring_together() -> None:
    sessions = {f"{number}.0": 100 for number in range(30)} | {f"eve{number}.0": 150 for number in range(4)}
    users = {session: "eve" if session.startswith("eve") else session for session in sessions}
    members = tuple(Member(one, users[one], (1,), weight, True) for one, weight in sessions.items())
    probation, drawn = Probation(), random.Random(3)
    for number in range(1, AUDITS):
        header = Header("", number, HeaderKind.UPDATE, "", Ballot(1, ""), members, (Part("a.0", ("digest",)),))
        cosines = {one: drawn.gauss(0.0 if users[one] == "eve" else 0.2, 0.05) for one in sessions}
        probation.after_step(header)
        probation.after_audit(header, list(cosines.items()), users)
    assert probation.users == {"eve"} and max(sessions.values()) < 0.05 * sum(sessions.values())


def test_a_worse_liar_hides_another_one_only_until_it_is_doubted_itself() -> None:
    probation, drawn = Probation(), random.Random(3)
    for number in range(1, 2 * AUDITS):
        agreement = {session: drawn.gauss(0.2, 0.05) for session in WEIGHTS}
        agreement |= {HEAVY: drawn.gauss(-0.4, 0.05), "7.0": drawn.gauss(0.0, 0.01)}
        probation.after_step(step(number))
        probation.after_audit(step(number), list(agreement.items()), USERS)
    assert probation.users == {"user-6", "user-7"}
