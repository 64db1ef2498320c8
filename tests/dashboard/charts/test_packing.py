import math
from itertools import combinations

import pytest

from dashboard.charts.packing import pack


@pytest.mark.parametrize("aspect", [1.0, 2.4])
def test_bubbles_do_not_touch(aspect: float) -> None:
    radii = [1 / (1 + number / 5) + 0.05 for number in range(120)]
    places = pack(radii, aspect, gap=0.02)
    assert places[0] == (0.0, 0.0)
    for (one, first), (other, second) in combinations(zip(places, radii, strict=True), 2):
        assert math.dist(one, other) >= first + second + 0.0199


def test_bubbles_fill_the_shape_that_is_asked_for() -> None:
    places = pack([0.2] * 150, 2.4, gap=0.02)
    wide, high = max(abs(x) for x, _ in places), max(abs(y) for _, y in places)
    assert 1.8 < wide / high < 3.2


def test_nobody_and_somebody_alone_are_packed() -> None:
    assert pack([]) == []
    assert pack([1.0]) == [(0.0, 0.0)]
