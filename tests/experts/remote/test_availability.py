"""When a silent host is looked for."""

from experts.remote.availability import FIRST_LOOK, FORGIVEN, LONGEST_LOOK, Availability


def test_it_is_looked_for_at_growing_intervals():
    host = Availability()
    waits = [host.failed(0.0)] + [host.missed() for _ in range(20)]
    assert waits[:3] == [FIRST_LOOK, 2 * FIRST_LOOK, 4 * FIRST_LOOK]
    assert waits[-1] == LONGEST_LOOK
    assert host.is_out


def test_one_search_at_a_time():
    host = Availability()
    assert host.failed(0.0) is not None
    assert host.failed(1.0) is None


def test_one_that_answers_looks_but_no_calls_stays_out_for_longer_each_time():
    host = Availability()
    waits = []
    for now in range(5):
        waits.append(host.failed(float(now)))
        host.found(float(now))
        assert not host.is_out
    assert waits == [FIRST_LOOK * 2**power for power in range(5)]


def test_a_failure_long_after_the_last_is_the_first_again():
    host = Availability()
    host.failed(0.0)
    host.missed()
    host.found(10.0)
    assert host.failed(10.0 + FORGIVEN) == FIRST_LOOK
