"""Users that means leave out, and for how long."""

import random
from collections.abc import Callable

import pytest

from averaging.log.header import Ballot, Header, HeaderKind, Member, Part
from coordinator.ledger.audits.probation import (
    ENOUGH,
    ENOUGH_LOUD,
    ENOUGH_OF_NOISE,
    FORGET,
    LOOKS,
    Doubt,
    Probation,
)
from tests.coordinator.ledger.agreements import agreement
from tests.coordinator.ledger.audits.test_worth import WEIGHTS, cosines

HEAVY = "6.0"
USERS = {session: f"user-{session[0]}" for session in WEIGHTS}


def step(number: int) -> Header:
    members = tuple(Member(one, f"user-{one[0]}", (number,), weight, True) for one, weight in WEIGHTS.items())
    return Header("", number, HeaderKind.UPDATE, "", Ballot(1, ""), members, (Part("coordinator.0", ("digest",)),))


def followed(
    lie: Callable[[float, random.Random], float], audits: int, probation: Probation | None = None
) -> tuple[Probation, list[Doubt]]:
    probation, drawn, found = probation or Probation(), random.Random(3), list[Doubt]()
    for number in range(1, audits + 1):
        seen = cosines(drawn)
        seen[HEAVY] = lie(seen[HEAVY], drawn)
        found += probation.take_in(step(number), agreement(seen), USERS)
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
    probation, found = followed(lie, LOOKS)
    assert probation.users == (frozenset({"user-6"}) if is_doubted else frozenset())
    assert [(one.user, one.session) for one in found] == ([("user-6", HEAVY)] if is_doubted else [])
    assert all("agree with the others' less" in one.what for one in found)


def test_who_sends_noise_is_doubted_after_a_few_looks() -> None:
    _, found = followed(lambda honest, drawn: drawn.gauss(0.0, 0.005), ENOUGH_OF_NOISE - 1)
    assert not found
    probation, found = followed(lambda honest, drawn: drawn.gauss(0.0, 0.005), ENOUGH_OF_NOISE)
    assert [one.user for one in found] == ["user-6"]
    probation, _ = followed(lambda honest, drawn: drawn.gauss(0.0, 0.005), ENOUGH_OF_NOISE, probation)
    assert probation.users == {"user-6"}


def test_who_turns_gradients_around_is_doubted_after_eight_looks_however_their_sizes_differ() -> None:
    probation, found = Probation(), list[Doubt]()
    for number, size in enumerate((0.01, 0.6, 0.02, 0.01, 0.5, 0.03, 0.01, 0.7), 1):
        assert not found
        seen = dict.fromkeys(WEIGHTS, size * number / 10) | {HEAVY: -size}
        found = probation.take_in(step(number), agreement(seen), USERS)
    assert [one.user for one in found] == ["user-6"]


@pytest.mark.parametrize(
    ("of_usual", "of_liar"),
    [
        pytest.param(0.3, 1.0, id="an unusual text"),
        pytest.param(-0.2, -1.0, id="a liar among the others makes it point away"),
    ],
)
def test_one_whose_cosines_follow_the_usual_ones_lies_in_no_way(of_usual: float, of_liar: float) -> None:
    found = set()
    for seed in range(100):
        probation, drawn = Probation(), random.Random(seed)
        for number in range(1, ENOUGH):
            usual = drawn.uniform(0.05, 0.5)
            seen = {session: usual + drawn.gauss(0.0, 0.02) for session in WEIGHTS}
            seen |= {HEAVY: of_usual * usual + drawn.gauss(0.0, 0.02), "7.0": of_liar * usual}
            found |= {one.user for one in probation.take_in(step(number), agreement(seen), USERS)}
    assert found == ({"user-7"} if of_liar < 0 else set())


def test_accomplices_that_send_noise_in_turn_do_not_hide_a_liar() -> None:
    probation, drawn = Probation(), random.Random(3)
    for number in range(1, LOOKS):
        seen = {session: drawn.gauss(0.2, 0.02) for session in WEIGHTS} | {HEAVY: drawn.gauss(-0.02, 0.02)}
        noisy = "7.0" if number <= ENOUGH_OF_NOISE else "5.0"
        probation.take_in(step(number), agreement(seen | {noisy: drawn.gauss(0.0, 0.001)}), USERS)
        if number == ENOUGH + 1:
            assert probation.users >= {"user-6", "user-7"}


@pytest.mark.parametrize(
    ("cosine", "loud", "users"),
    [
        pytest.param(0.0, {}, USERS, id="nobody agrees with anybody, so nobody sends noise"),
        pytest.param(0.1, {"0.0": 50.0}, USERS, id="a user with little of the weight"),
        pytest.param(0.1, {"6.0": 50.0}, {}, id="a name that only a header says"),
    ],
)
def test_nobody_is_doubted(cosine: float, loud: dict[str, float], users: dict[str, str]) -> None:
    probation, audit = Probation(), agreement(dict.fromkeys(WEIGHTS, cosine), loud)
    for number in range(1, 3 * LOOKS):
        assert not probation.take_in(step(number), audit, users)
    assert not probation.users and WEIGHTS["0.0"] < 0.05 * sum(WEIGHTS.values())


def test_who_is_of_use_again_is_trusted_again() -> None:
    probation, _ = followed(lambda honest, drawn: -honest, LOOKS)
    assert probation.users
    probation, found = followed(lambda honest, drawn: honest, LOOKS, probation)
    assert not probation.users and not found


def test_who_is_loud_look_after_look_is_doubted_until_that_is_over() -> None:
    probation, alike = Probation(), dict.fromkeys(WEIGHTS, 0.1)
    doubts = [
        probation.take_in(step(number), agreement(alike, {"6.0": 1.8}), USERS) for number in range(1, ENOUGH_LOUD + 1)
    ]
    assert [len(one) for one in doubts] == [0] * (ENOUGH_LOUD - 1) + [1]
    assert doubts[-1][0].what == "sends gradients 1.8 times as large as its samples explain"
    assert probation.users == {"user-6"}
    for number in range(LOOKS):
        assert not probation.take_in(step(100 + number), agreement(alike, {"6.0": 1.1}), USERS)
    assert not probation.users


def test_who_is_loud_for_a_while_only_is_not_doubted() -> None:
    """As one with another text is, when the model begins to learn from what the others have."""
    probation, alike = Probation(), dict.fromkeys(WEIGHTS, 0.1)
    for number in range(1, 4 * LOOKS):
        loud = 2.3 if LOOKS < number <= LOOKS + 11 else 1.3
        assert not probation.take_in(step(number), agreement(alike, {"6.0": loud}), USERS)


def test_another_session_of_the_peer_changes_nothing_and_long_absence_all() -> None:
    probation, _ = followed(lambda honest, drawn: -honest, LOOKS)
    header = step(LOOKS + 1)
    again = tuple(
        Member("6.1", one.user, (1,), one.weight, True) if one.session == HEAVY else one for one in header.members
    )
    alike = {one.session: 0.1 for one in again}
    probation.take_in(Header("", LOOKS + 1, HeaderKind.UPDATE, "", Ballot(1, ""), again), agreement(alike), USERS)
    assert probation.users == {"user-6"}
    others = tuple(one for one in header.members if one.session != HEAVY)
    alike = {one.session: 0.1 for one in others}
    late = LOOKS + 2 + FORGET
    probation.take_in(Header("", late, HeaderKind.UPDATE, "", Ballot(1, ""), others), agreement(alike), USERS)
    assert not probation.users


def test_an_honest_one_that_a_liar_among_the_others_makes_point_away_is_not_doubted() -> None:
    probation, drawn = Probation(), random.Random(3)
    for number in range(1, LOOKS):
        seen = {session: drawn.gauss(0.1, 0.02) for session in WEIGHTS}
        seen |= {HEAVY: drawn.gauss(-0.5, 0.1), "7.0": drawn.gauss(0.1 if probation.users else -0.1, 0.02)}
        probation.take_in(step(number), agreement(seen), USERS)
    assert probation.users == {"user-6"}


def test_a_single_audit_puts_nobody_on_probation() -> None:
    """A text of one's own does not either."""
    probation, drawn = Probation(), random.Random(3)
    for number in range(1, 3 * LOOKS):
        seen = {session: drawn.gauss(0.2, 0.05) for session in WEIGHTS} | {HEAVY: drawn.gauss(0.15, 0.05)}
        loud = 1e6 if number % LOOKS == 10 else 1.0
        probation.take_in(step(number), agreement(seen, {"6.0": loud}), USERS)
        assert not probation.users


def test_devices_of_a_user_are_doubted_by_what_they_bring_together() -> None:
    sessions = {f"{number}.0": 100 for number in range(30)} | {f"eve{number}.0": 150 for number in range(4)}
    users = {session: "eve" if session.startswith("eve") else session for session in sessions}
    members = tuple(Member(one, users[one], (1,), weight, True) for one, weight in sessions.items())
    probation, drawn = Probation(), random.Random(3)
    for number in range(1, LOOKS):
        header = Header("", number, HeaderKind.UPDATE, "", Ballot(1, ""), members, (Part("a.0", ("digest",)),))
        seen = {one: drawn.gauss(0.0 if users[one] == "eve" else 0.2, 0.05) for one in sessions}
        probation.take_in(header, agreement(seen), users)
    assert probation.users == {"eve"} and max(sessions.values()) < 0.05 * sum(sessions.values())


def test_a_worse_liar_hides_another_one_only_until_it_is_doubted_itself() -> None:
    probation, drawn = Probation(), random.Random(3)
    for number in range(1, 2 * LOOKS):
        seen = {session: drawn.gauss(0.2, 0.05) for session in WEIGHTS}
        seen |= {HEAVY: drawn.gauss(-0.4, 0.05), "7.0": drawn.gauss(0.0, 0.01)}
        probation.take_in(step(number), agreement(seen), USERS)
    assert probation.users == {"user-6", "user-7"}


def test_one_on_probation_stays_there_over_a_restart_until_audits_say_otherwise() -> None:
    probation = Probation({"user-6", "user-5"})
    audit = agreement({"6.0": 0.1, "5.0": 0.1}, {"5.0": 3.0})
    for number in range(1, ENOUGH_LOUD):
        probation.take_in(step(number), audit, USERS)
        assert probation.users == {"user-6", "user-5"}
    probation.take_in(step(ENOUGH_LOUD), audit, USERS)
    assert probation.users == {"user-5"}


@pytest.mark.parametrize("of_own_part", [False, True])
def test_after_a_restart_one_way_of_looking_is_enough_if_the_other_shows_nothing(of_own_part: bool) -> None:
    probation, alike = Probation({"user-6"}), agreement(dict.fromkeys(WEIGHTS, 0.1))
    for number in range(1, ENOUGH_LOUD):
        probation.take_in(step(number), alike, USERS, of_own_part=of_own_part)
    assert probation.users == {"user-6"}
    probation.take_in(step(ENOUGH_LOUD), alike, USERS, of_own_part=of_own_part)
    assert not probation.users


def test_after_a_restart_many_looks_of_one_kind_do_not_hide_what_a_few_of_the_other_may_show() -> None:
    probation, alike = Probation({"user-6"}), agreement(dict.fromkeys(WEIGHTS, 0.1))
    for number in range(1, 3 * ENOUGH_LOUD):
        probation.take_in(step(number), alike, USERS, of_own_part=number % 4 > 0)
    assert probation.users == {"user-6"}


def test_a_doubt_ends_when_nothing_more_is_seen_though_steps_pass() -> None:
    """As where the coordinator reduces no part any more, and audits show nothing."""
    probation, drawn = Probation(), random.Random(3)
    for number in range(1, LOOKS):
        seen = cosines(drawn) | {HEAVY: drawn.gauss(0.0, 0.005)}
        probation.take_in(step(number), agreement(seen), USERS, of_own_part=True)
    for number in range(LOOKS, LOOKS + FORGET):
        assert probation.users == {"user-6"}, number
        probation.passed(number)
    assert not probation.users


def test_one_on_probation_who_never_comes_back_is_forgotten() -> None:
    probation, audit = Probation({"gone"}), agreement(dict.fromkeys(WEIGHTS, 0.1))
    for number in (1, FORGET):
        probation.take_in(step(number), audit, USERS)
        assert probation.users == {"gone"}
    probation.take_in(step(FORGET + 1), audit, USERS)
    assert not probation.users
