"""Nobody has more of a mean than the bound, whatever they say to have, and nobody else loses by that."""

import random
from fractions import Fraction

import pytest

from averaging.log.shares import FEW, MOST, counted


def shares_of(weights: list[int]) -> list[float]:
    """Of members that are users of their own."""
    found = counted([f"user {number}" for number in range(len(weights))], weights)
    return [one / sum(found) for one in found]


@pytest.mark.parametrize("users", [2, 3, 5, 10, 16, 300])
@pytest.mark.parametrize("claim", [10**3, 10**6, 2**29])
def test_the_greatest_claim_has_no_more_than_the_bound(users: int, claim: int) -> None:
    first, *others = shares_of([claim, *[500] * (users - 1)])
    bound = float(max(MOST, FEW / users))
    assert first <= bound + 1e-3
    assert first == pytest.approx(min(bound, claim / (claim + 500 * (users - 1))), abs=2e-3)
    assert others == pytest.approx([(1 - first) / (users - 1)] * (users - 1))


def test_several_heavy_users_are_cut_to_the_same_and_the_light_ones_stay_as_they_are() -> None:
    weights = [9000, 7000, 5000, *[100] * 17]
    found = counted([str(number) for number in range(20)], weights)
    assert found[3:] == weights[3:]
    assert found[0] == found[1] == found[2] and found[0] / sum(found) == pytest.approx(0.15, abs=1e-3)


def test_devices_of_a_user_share_the_bound_by_what_they_bring() -> None:
    users = ["eve", "eve", "eve", *[f"user {number}" for number in range(15)]]
    found = counted(users, [6000, 3000, 0, *[100] * 15])
    assert sum(found[:3]) / sum(found) <= MOST
    assert found[0] == pytest.approx(2 * found[1], abs=2) and not found[2]


@pytest.mark.parametrize("weights", [[], [0], [0, 0], [7], [7, 7], [1] * 10, [60, 60, 60, 50, 50, 40, 40, 20]])
def test_where_nobody_is_beyond_the_bound_nothing_changes(weights: list[int]) -> None:
    assert counted([str(number) for number in range(len(weights))], weights) == weights


def test_members_without_gradients_make_nobodys_bound_smaller() -> None:
    assert counted(["a", "b", "c", "d"], [90, 10, 0, 0]) == [30, 10, 0, 0]
    assert Fraction(30, 40) == FEW / 2


def test_those_on_probation_count_with_nothing_and_nobody_else_loses() -> None:
    users, weights = ["eve", "eve", "mallory", *map(str, range(20))], [900, 600, 30, *[100] * 20]
    assert counted(users, weights, {"eve", "somebody who is not there"}) == [0, 0, *weights[2:]]
    assert counted(users, weights, {"eve", "mallory"}) == [0, 0, 0, *weights[3:]]


def test_the_others_are_bounded_as_if_those_on_probation_were_not_there() -> None:
    assert counted(["eve", "a", "b", "c", "d"], [500, 90, 10, 0, 0], {"eve"}) == [0, 30, 10, 0, 0]


@pytest.mark.parametrize("users", [1, 2, 5, 19, 20, 30])
def test_where_all_are_on_probation_nobody_is(users: int) -> None:
    names, weights = [str(number) for number in range(users)], [100] * users
    assert counted(names, weights, names) == weights


@pytest.mark.parametrize("seed", range(20))
def test_no_bound_is_passed_and_the_same_are_cut_whatever_their_order(seed: int) -> None:
    drawn = random.Random(seed)
    users = [f"user {number}" for number in range(drawn.randint(2, 40))]
    weights = [drawn.choice([0, 8, 500, 10**6]) for _ in users]
    doubted = set(drawn.sample(users, len(users) // 3))
    found = counted(users, weights, doubted)
    is_out = any(one for user, one in zip(users, weights, strict=True) if user not in doubted)
    there = sum(one > 0 and not (is_out and user in doubted) for user, one in zip(users, weights, strict=True))
    bound = max(MOST, FEW / max(1, there))
    for user, one, weight in zip(users, found, weights, strict=True):
        assert 0 <= one <= weight
        assert not (is_out and user in doubted and one)
        assert one <= bound * sum(found) + len(users), "whole numbers: each is cut by less than one"
    order = drawn.sample(range(len(users)), len(users))
    again = counted([users[n] for n in order], [weights[n] for n in order], doubted)
    assert again == [found[n] for n in order]
