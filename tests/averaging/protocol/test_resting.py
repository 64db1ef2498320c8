"""Who rests: as the plan of a round says, for as long as there are steps, and never all."""

from averaging.log.header import Ballot, Member
from averaging.protocol.messages import Assignment, Plan
from averaging.protocol.resting import IN_VAIN, LASTS, Resting

OTHERS = {"asha", "bela"}


def plan(instance: str, *resting: str, senders: tuple[str, ...] = ("asha", "me")) -> Plan:
    """Three chunks, of which this peer reduces one."""
    brings = {one: (0,) if one in senders else () for one in ("asha", "bela", "me")}
    members = tuple(Member(one, one, buffers, len(buffers), reachable=True) for one, buffers in brings.items())
    parts = (Assignment(0, 2, "asha", 0), Assignment(2, 1, "me", 0))
    return Plan(instance, Ballot(1, "asha"), members, parts, resting)


def test_a_peer_rests_from_one_plan_to_the_next() -> None:
    resting = Resting("me")
    seen = []
    for number, who in enumerate([(), ("me",), ("me", "bela"), ("bela",), ("me",)]):
        resting.planned(plan(str(number), *who), float(number))
        seen.append(resting.rests)
    assert seen == [False, True, True, False, True]
    assert resting.share == 1 / 3


def test_a_plan_in_which_all_rest_is_not_followed() -> None:
    resting = Resting("me")
    resting.planned(plan("a", "me", "asha", "bela"), 0.0)
    assert not resting.rests
    resting.planned(plan("b", "me", "asha"), 1.0)  # bela brought nothing: perhaps it cannot
    assert not resting.rests


def test_a_peer_that_rests_in_vain_computes_again_and_follows_no_plan_for_a_while() -> None:
    resting = Resting("me")
    resting.planned(plan("a", "me"), 0.0)
    resting.tick(OTHERS, LASTS - 1)
    resting.planned(plan("a", "me"), LASTS - 1)  # the same step once more
    assert resting.rests
    resting.tick(OTHERS, LASTS)
    assert not resting.rests
    resting.planned(plan("b", "me"), LASTS + IN_VAIN - 1)
    assert not resting.rests
    resting.planned(plan("c", "me"), LASTS + IN_VAIN)
    assert resting.rests


def test_each_step_lets_it_rest_for_longer() -> None:
    resting = Resting("me")
    for number in range(9):
        resting.planned(plan(str(number), "me"), number * (LASTS - 1))
        resting.tick(OTHERS, (number + 1) * (LASTS - 1))
    assert resting.rests


def test_it_computes_at_once_when_all_that_were_to_do_so_have_left() -> None:
    resting = Resting("me")
    resting.planned(plan("a", "me", senders=("asha", "bela", "me")), 0.0)
    resting.tick({"bela"}, 1.0)
    assert resting.rests
    resting.tick({"chand"}, 2.0)
    assert not resting.rests
    resting.planned(plan("b", "me"), 3.0)  # it has not rested in vain
    assert resting.rests
