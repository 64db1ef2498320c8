"""The clock of the swarm goes on whatever the machine's clock is set to."""

import time

import pytest

from swarm import clock

steady = pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="there is no clock that nobody sets")


@steady
@pytest.mark.parametrize("seconds", [120.0, -120.0])
def test_a_clock_that_is_set_changes_nothing(monkeypatch: pytest.MonkeyPatch, seconds: float):
    right = time.time()
    monkeypatch.setattr(clock.time, "time", lambda: right + seconds)
    assert abs(clock.now() - right) < 60
    assert clock.set_by() == pytest.approx(seconds, abs=60)


@steady
def test_a_clock_that_is_nearly_right_is_no_matter(monkeypatch: pytest.MonkeyPatch):
    right = clock.now()
    monkeypatch.setattr(clock.time, "time", lambda: right + 2)
    assert clock.set_by() == 0.0


@pytest.mark.parametrize(
    ("ahead", "told"),
    [(-119.98, "2 minutes ahead of the peer's"), (5.2, "5 s behind the peer's"), (3600.0, "60 minutes behind")],
)
def test_a_wrong_clock_is_reported_with_its_offset(ahead: float, told: str):
    assert told in clock.describe_offset(ahead, "the peer's")
