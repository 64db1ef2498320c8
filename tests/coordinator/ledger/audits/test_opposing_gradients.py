"""Who is said to point against the others."""

import random

import pytest

from coordinator.ledger.audits.opposing_gradients import AUDITS, Against, Directions
from tests.coordinator.ledger.agreements import agreement


@pytest.mark.parametrize(
    ("mean", "spread", "is_against"),
    [
        pytest.param(-1.0, 0.0, True, id="straight against the mean of the others"),
        pytest.param(-0.45, 0.3, True, id="turned around, while gradients are mostly slope"),
        pytest.param(-0.05, 0.01, True, id="turned around, in a large model, where they are mostly noise"),
        pytest.param(0.0, 0.005, False, id="noise"),
        pytest.param(0.1, 0.3, False, id="honest, and light"),
        pytest.param(-0.02, 0.01, False, id="a text that teaches a little of the opposite"),
    ],
)
def test_who_points_against_the_others_for_long(mean: float, spread: float, is_against: bool) -> None:
    directions, drawn = Directions(), random.Random(5)
    found = [directions.against(agreement({"eve.0": drawn.gauss(mean, spread)})) for _ in range(10 * AUDITS)]
    assert any(one.is_sure for audit in found for one in audit) == is_against


def test_a_few_audits_say_nothing_and_a_new_session_changes_nothing() -> None:
    directions = Directions()
    found = [directions.against(agreement({f"eve.{number}": -0.5})) for number in range(2 * AUDITS)]
    named = {number: one for number, audit in enumerate(found, start=1) for one in audit}
    assert named == {
        AUDITS: Against(f"eve.{AUDITS - 1}", -0.5, AUDITS, is_sure=False),
        2 * AUDITS: Against(f"eve.{2 * AUDITS - 1}", -0.5, 2 * AUDITS, is_sure=True),
    }


def test_in_thousands_of_audits_no_honest_peer_is_sure_to_be_against_the_others() -> None:
    """As light as eight samples, in a small model: its cosines are mostly noise."""
    directions, drawn = Directions(), random.Random(1)
    found = [
        one
        for _ in range(2_000)
        for one in directions.against(agreement({f"{n}.0": drawn.gauss(0.06, 0.28) for n in range(16)}))
    ]
    assert not any(one.is_sure for one in found)


def test_honest_ones_that_point_away_from_two_liars_together_are_not_named() -> None:
    """Not when the liars have left, either."""
    directions, drawn, named = Directions(), random.Random(2), list[str]()
    for number in range(8 * AUDITS):
        liars = {"eve.0": -1.0, "mallory.0": -0.9} if number < 2 * AUDITS - 1 else {}
        honest = {f"{n}.0": drawn.gauss(-0.3 if liars else 0.1, 0.2) for n in range(10)}
        named += [one.session for one in directions.against(agreement(honest | liars))]
    assert set(named) == {"eve.0", "mallory.0"}
