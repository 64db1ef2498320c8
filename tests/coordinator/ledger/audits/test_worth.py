"""Who is said to agree less with the others than people who bring less."""

import random
from collections.abc import Callable

import pytest

from coordinator.ledger.audits.worth import AUDITS, FEWEST, Worth
from tests.coordinator.ledger.agreements import agreement

WEIGHTS = {f"{number}.0": 30 * 2**number for number in range(8)}


def cosines(drawn: random.Random) -> dict[str, float]:
    """Of honest senders of a small model: the more they bring, the more they agree, and mostly noise."""
    step = drawn.gauss(0.0, 0.2)
    return {session: 0.1 + 0.03 * number + step + drawn.gauss(0.0, 0.2) for number, session in enumerate(WEIGHTS)}


@pytest.mark.parametrize(
    ("lie", "is_named"),
    [
        pytest.param(lambda honest, drawn: honest, False, id="honest"),
        pytest.param(lambda honest, drawn: drawn.gauss(0.0, 0.005), True, id="noise"),
        pytest.param(lambda honest, drawn: honest - 0.4, True, id="the wrong words"),
        pytest.param(lambda honest, drawn: honest - 0.05, False, id="a text that differs a little"),
    ],
)
def test_one_that_agrees_less_than_those_who_bring_less_is_named(
    lie: Callable[[float, random.Random], float], is_named: bool
) -> None:
    worth, drawn, named = Worth(), random.Random(3), list[str]()
    for _ in range(3 * AUDITS):
        seen = cosines(drawn)
        seen["6.0"] = lie(seen["6.0"], drawn)
        named += [one.session for one in worth.less(agreement(seen), WEIGHTS)]
    assert set(named) == ({"6.0"} if is_named else set())


def test_the_lightest_ones_are_compared_with_nobody() -> None:
    worth, drawn = Worth(), random.Random(3)
    for _ in range(2 * AUDITS):
        assert not worth.less(agreement(cosines(drawn) | {"1.0": -1.0}), WEIGHTS)
    assert sum(WEIGHTS[one] <= WEIGHTS["1.0"] for one in WEIGHTS) - 1 < FEWEST
