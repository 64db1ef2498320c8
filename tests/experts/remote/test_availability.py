"""When a silent host is looked for, and an expert that refuses is called again."""

import random

from experts.remote.availability import (
    FIRST_LOOK,
    FIRST_PAUSE,
    FORGIVEN,
    LONGEST_LOOK,
    MOST_REFUSED,
    Availability,
    Refusals,
)
from experts.remote.wire import Kind


def test_it_is_looked_for_at_growing_intervals():
    host = Availability()
    waits = [host.failed()] + [host.missed() for _ in range(20)]
    assert waits[:3] == [FIRST_LOOK, 2 * FIRST_LOOK, 4 * FIRST_LOOK]
    assert waits[-1] == LONGEST_LOOK
    assert host.is_out
    assert host.failed() is None, "there is one search at a time"


def test_one_that_answers_looks_but_hardly_a_call_stays_out_for_longer_each_time():
    host = Availability()
    waits = []
    for _ in range(5):
        waits.append(host.failed())
        host.found()
        assert not host.is_out
        for _ in range(FORGIVEN - 1):
            host.answered(Kind.FORWARD)
    assert waits == [FIRST_LOOK * 2**power for power in range(5)]


def test_a_failure_after_some_answers_is_the_first_again():
    host = Availability()
    host.failed()
    host.missed()
    host.found()
    for _ in range(FORGIVEN):
        host.answered(Kind.FORWARD)
    assert host.failed() == FIRST_LOOK


def test_a_host_that_loses_a_tenth_of_its_calls_is_used_most_of_the_time():
    """An hour of one call a second; looks are lost as often."""
    chance, host = random.Random(0), Availability()
    look, used = 0.0, 0
    for now in range(3600):
        is_lost = chance.random() < 0.1
        if host.is_out and now >= look:
            if is_lost:
                look = now + host.missed()
            else:
                host.found()
        elif not host.is_out:
            used += 1
            if is_lost:
                look = now + (host.failed() or 0.0)
            else:
                host.answered(Kind.FORWARD)
    assert used > 0.8 * 3600


def test_an_expert_that_refuses_is_left_out_for_longer_each_time():
    expert = Refusals()
    pauses = []
    for now in range(MOST_REFUSED + 10):
        expert.refused(float(now))
        pauses.append(expert.until - now)
    assert max(pauses[: MOST_REFUSED - 1]) < 0
    assert pauses[MOST_REFUSED - 1 : MOST_REFUSED + 1] == [FIRST_PAUSE, 2 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_LOOK
