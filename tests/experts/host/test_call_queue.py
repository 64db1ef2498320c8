"""The queue in virtual time: when a batch is due, who comes first, and who is refused."""

import random
from collections import Counter

import pytest

from experts.host.call_queue import CALL_COST, Call, CallQueue, Direction
from experts.host.settings import HostLimits

LIMITS = HostLimits(batch_rows=100, longest_wait=0.01, longest_queue=2.0, most_calls=50)
SPEED = 1000.0  # rows a second


def queue(limits: HostLimits = LIMITS) -> CallQueue:
    made = CallQueue(limits)
    made.speed = SPEED
    return made


def call(caller: str, rows: int = 10, direction: Direction = Direction.FORWARD) -> Call:
    return Call(caller, (0,), direction, rows, b"")


def test_a_call_waits_for_others_but_not_longer_than_allowed():
    waiting = queue()
    assert waiting.due_in(0.0) is None
    waiting.offer(call("a"), 1.0)
    waiting.offer(call("b"), 1.004)
    assert waiting.due_in(1.004) == pytest.approx(0.006)
    assert waiting.due_in(5.0) == 0.0


def test_a_full_batch_is_due_at_once():
    waiting = queue()
    waiting.offer(call("a", 60), 1.0)
    assert waiting.due_in(1.0) == pytest.approx(0.01)
    waiting.offer(call("b", 40), 1.0)
    assert waiting.due_in(1.0) == 0.0


def test_callers_with_equal_calls_come_by_turns():
    waiting = queue()
    of_a = [call("a") for _ in range(20)]
    of_b = [call("b") for _ in range(2)]
    for one in (*of_a, *of_b):
        assert not waiting.offer(one, 0.0)
    first = waiting.take()
    assert sum(one.rows for one in first) == 100
    assert set(of_b) < set(first)
    assert [one for one in first if one.caller == "a"] == of_a[:8]  # the oldest ones
    assert waiting.take() == of_a[8:18]
    assert waiting.take() == of_a[18:]
    assert waiting.take() == []
    assert waiting.load == 0.0


def test_a_call_that_is_larger_than_a_batch_is_computed_alone_and_those_that_fit_do_not_wait_for_it():
    waiting = queue()
    large = call("a", 500)
    small = [call("b"), call("b"), call("b", 95)]
    for one in (small[0], large, *small[1:]):
        waiting.offer(one, 0.0)
    assert [waiting.take() for _ in range(3)] == [small[:2], [large], small[2:]]


def test_callers_have_equal_shares_of_the_work_however_large_their_calls_are():
    limits = HostLimits(batch_rows=2048, longest_queue=1e9)
    waiting = queue(limits)
    rows = {"huge": limits.request_rows, "large": 2000, "small": 10, "tiny": 1}
    done, left = dict.fromkeys(rows, 0.0), dict.fromkeys(rows, 0)
    for number in range(1000):
        for caller in rows:
            for _ in range(300 - left[caller]):  # there is always more than a batch
                waiting.offer(call(caller, rows[caller], Direction.BACKWARD if number % 2 else Direction.FORWARD), 0.0)
                left[caller] += 1
        batch = waiting.take()
        assert len(batch) == 1 or sum(one.rows for one in batch) <= limits.batch_rows
        for one in batch:
            done[one.caller] += one.cost
            left[one.caller] -= 1
    huge = call("huge", limits.request_rows, Direction.BACKWARD).cost
    assert min(done.values()) > 20 * huge
    assert max(done.values()) - min(done.values()) <= 2 * huge


def test_a_small_call_waits_for_one_large_one_at_most():
    waiting = queue(HostLimits(batch_rows=100, longest_queue=1e9))
    for _ in range(10):
        waiting.offer(call("a", 1000), 0.0)
    for _ in range(5):
        assert [one.caller for one in waiting.take()] == ["a"]
        small = call("b")
        waiting.offer(small, 0.0)
        assert waiting.take() == [small]


def test_a_caller_that_was_not_there_has_saved_nothing():
    waiting = queue(HostLimits(batch_rows=100, longest_queue=1e9))
    for _ in range(30):
        waiting.offer(call("a", 100), 0.0)
    for _ in range(10):
        waiting.take()
    for _ in range(10):
        waiting.offer(call("b", 100), 0.0)
    assert Counter(one.caller for _ in range(6) for one in waiting.take()) == {"a": 3, "b": 3}


def test_nothing_is_kept_of_callers_that_have_gone():
    waiting = queue(HostLimits(batch_rows=100, longest_queue=1e9))
    for _ in range(300):
        waiting.offer(call("always", 100), 0.0)
    for number in range(100):
        waiting.offer(call(f"caller{number}"), 0.0)
        waiting.take()
        waiting.take()
    assert len(waiting._had) <= 3
    while waiting.take():
        pass
    assert not waiting._had


def test_a_flood_displaces_itself_and_not_the_calls_of_others():
    waiting = queue()
    fair = [call("fair", 100) for _ in range(5)]
    refused = [one for sent in fair for one in waiting.offer(sent, 0.0)]
    for _ in range(100):
        refused += waiting.offer(call("flood", 100), 0.0)
    late = [call("late", 100) for _ in range(3)]
    refused += [one for sent in late for one in waiting.offer(sent, 0.0)]
    assert refused
    assert {one.caller for one in refused} == {"flood"}
    assert waiting.load <= LIMITS.longest_queue


def test_a_lone_caller_has_the_whole_queue_and_the_newest_call_is_refused():
    waiting = queue()
    calls = [call("a", 100 - CALL_COST) for _ in range(25)]
    refused = [one for sent in calls for one in waiting.offer(sent, 0.0)]
    assert refused == calls[20:]  # two seconds of work are 2000 rows


def test_calls_are_bounded_in_number_however_small_they_are():
    waiting = queue(HostLimits(longest_queue=1e9, most_calls=50))
    refused = [one for _ in range(80) for one in waiting.offer(call("a", 1), 0.0)]
    assert len(refused) == 30


def test_one_call_is_taken_even_by_a_host_that_is_slow():
    waiting = queue()
    waiting.speed = 1e-3
    assert not waiting.offer(call("a"), 0.0)


def test_the_speed_follows_what_is_measured_and_backward_is_more_work():
    waiting = queue()
    for _ in range(100):
        waiting.computed([call("a", 484)], 0.25)
    assert waiting.speed == pytest.approx(2000.0, rel=1e-3)
    assert call("a", direction=Direction.BACKWARD).cost == 3 * call("a").cost
    waiting.computed([], 0.1)
    waiting.computed([call("a")], 0.0)
    assert waiting.speed == pytest.approx(2000.0, rel=1e-3)


def test_a_forgotten_call_is_not_computed():
    waiting = queue()
    gone, stays = call("a"), call("a")
    waiting.offer(gone, 0.0)
    waiting.offer(stays, 0.0)
    waiting.forget(gone)
    waiting.forget(gone)
    assert waiting.take() == [stays]
    waiting.forget(stays)
    assert waiting.load == 0.0
    assert waiting.due_in(0.0) is None


def test_every_call_is_answered_once_in_any_course():
    for seed in range(50):
        chance = random.Random(seed)
        waiting = queue()
        offered, ended = [], []
        for step in range(200):
            if chance.random() < 0.7:
                offered.append(call(chance.choice("abc"), chance.randint(1, 150), chance.choice(list(Direction))))
                ended += waiting.offer(offered[-1], step / 100)
            elif chance.random() < 0.3 and offered:
                one = chance.choice(offered)
                if one not in ended:
                    waiting.forget(one)
                    ended.append(one)
            else:
                ended += waiting.take()
        while batch := waiting.take():
            ended += batch
        assert sorted(map(id, ended)) == sorted(map(id, offered)), f"seed {seed}"
        assert waiting.load == 0.0, f"seed {seed}"
