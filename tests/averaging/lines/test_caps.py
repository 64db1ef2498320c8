"""What averaging takes of a line is what its volunteer allows."""

import time
from pathlib import Path

import pytest

from tests.averaging.test_groups import MATCHMAKING, addresses, averager, end_process
from tests.forked import runs_well
from trainer.averaging.lines.caps import Cap, Caps

SPEED = 1e6  # bytes a second
ELEMENTS = 3 * 2**19  # of a vector that takes six seconds at that speed


def test_messages_wait_until_those_before_them_are_within_the_cap() -> None:
    cap = Cap(SPEED)
    assert cap.reserve(500_000, now=100.0) == 0.0  # nothing was sent before
    assert cap.reserve(500_000, now=100.1) == pytest.approx(0.4)
    assert cap.reserve(10, now=100.1) == pytest.approx(0.9)
    assert cap.reserve(10, now=200.0) == 0.0  # what was not used is not saved up
    assert cap.reserve(10, now=200.0) == pytest.approx(1e-5)


def test_caps_are_given_in_megabits() -> None:
    caps = Caps.of(8.0, None)
    assert caps.download is None
    assert caps.upload is not None
    caps.upload.reserve(1_000_000, now=0.0)
    assert caps.upload.reserve(1, now=0.0) == pytest.approx(1.0)


@pytest.mark.swarm
@pytest.mark.faults
@pytest.mark.parametrize("direction", ["upload", "download"])
def test_averagers_keep_to_a_cap(direction: str, tmp_path: Path) -> None:
    runs_well(average_with_a_cap, tmp_path, direction)


def average_with_a_cap(folder: Path, direction: str) -> None:
    """Two averagers swap halves; with the cap on one of them that cannot be over sooner than the cap allows."""
    caps = Caps(**{direction: Cap(SPEED)})
    with (
        averager(folder, 0, [], size=ELEMENTS, own_caps=caps) as one,
        averager(folder, 1, addresses(one.dht), size=ELEMENTS) as other,
    ):
        began = time.monotonic()
        rounds = [each.step(gather=0, wait=False, timeout=30.0, allow_retries=False) for each in (one, other)]
        for ended in [each.result(60.0) for each in rounds]:
            assert (len(ended), ended.problem) == (2, None)
        half = 4 * ELEMENTS / 2  # bytes; one is sent, and the mean of the other one
        last_message = 2**19
        assert time.monotonic() - began > (2 * half - last_message) / SPEED > 2 * MATCHMAKING
    end_process()
