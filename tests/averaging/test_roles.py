"""Who computes gradients next, as the members of a group decide it, and how long that holds."""

import pytest

from trainer.averaging import roles
from trainer.averaging.roles import Assigned, Role, SwarmStep, assigned
from trainer.averaging.told import Told

MEGABIT = 125_000.0  # bytes
ELEMENTS, WIRE = 12_000_000, 12e6
SMALL = SwarmStep(samples=200.0, overlap=True)
LARGE = SwarmStep(samples=20_000.0, overlap=True)


def member(speed: float, upload: float, *, trains: bool = True, assists: bool = False) -> Told:
    """A peer of so many samples and Mbit (up; five times as many down) a second."""
    return Told(3, b"", assists, 0, upload * MEGABIT, 5 * upload * MEGABIT, speed, trains)


def decided(group: list[Told], step: SwarmStep) -> list[bool]:
    """Who trains next."""
    given = [assigned(group, [False] * len(group), own, step, ELEMENTS, WIRE) for own in range(len(group))]
    assert all(one is not None for one in given)
    return [one is None or one.trains for one in given]


GPU, HOST, LAPTOP = member(100.0, 20.0), member(1.0, 200.0), member(10.0, 2.0)


def test_a_line_that_all_would_wait_for_sends_no_gradients():
    assert decided([GPU, HOST, LAPTOP], SMALL) == [True, True, False]
    news = assigned([GPU, HOST, LAPTOP], [False] * 3, 2, SMALL, ELEMENTS, WIRE)
    assert news is not None
    assert "too slow (2 Mbit/s up)" in str(news.news)


def test_with_a_large_batch_everybody_computes():
    assert decided([GPU, HOST, LAPTOP], LARGE) == [True, True, True]


def test_a_role_is_news_only_when_it_changes():
    resting = member(30.0, 2.0, trains=False)
    given = assigned([GPU, HOST, resting], [False] * 3, 2, SMALL, ELEMENTS, WIRE)
    assert given is not None
    assert (given.trains, given.news) == (False, None)
    back = assigned([GPU, HOST, resting], [False] * 3, 2, LARGE, ELEMENTS, WIRE)
    assert back is not None
    assert back.trains
    assert "you compute gradients" in str(back.news) or "you send gradients" in str(back.news)


def test_the_coordinator_never_trains_and_a_newcomer_may():
    coordinator, newcomer = member(0.0, 200.0, trains=False, assists=True), member(0.0, 20.0)
    assert decided([GPU, GPU, coordinator, newcomer], SMALL) == [True, True, False, True]


def test_nobody_is_told_to_rest_while_too_little_is_known():
    unknown_lines = [Told(3, b"", False, 0, 0.0, 0.0, 10.0)] * 3
    assert assigned(unknown_lines, [False] * 3, 0, SMALL, ELEMENTS, WIRE) is None
    unknown_speeds = [member(0.0, 20.0)] * 3
    assert assigned(unknown_speeds, [False] * 3, 0, SMALL, ELEMENTS, WIRE) is None


def test_a_role_lasts_until_the_others_may_be_gone(monkeypatch: pytest.MonkeyPatch):
    now = 1_000.0
    monkeypatch.setattr(roles.time, "monotonic", lambda: now)
    resting = Role(Assigned(trains=False, seconds=60.0, news=None))
    assert not resting.trains
    assert Role(None).trains
    assert Role(Assigned(trains=True, seconds=60.0, news=None)).trains
    now += 61.0
    assert resting.trains


def test_it_holds_for_some_global_steps():
    given = assigned([GPU, HOST, LAPTOP], [False] * 3, 2, SwarmStep(400.0, overlap=True), ELEMENTS, WIRE)
    assert given is not None
    assert given.seconds == roles.LASTS_LEAST
    slow = assigned([GPU, HOST, LAPTOP], [False] * 3, 2, SwarmStep(4e5, overlap=True), ELEMENTS, WIRE)
    assert slow is not None
    assert slow.seconds == pytest.approx(3 * 4e5 / 111.0)
