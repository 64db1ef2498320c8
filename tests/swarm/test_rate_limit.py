import asyncio

from swarm.rate_limit import RateLimit, Tarpit, address_key
from tests.support.waiting import PATIENCE


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_attempts_come_back_with_time_and_refused_ones_cost_nothing() -> None:
    clock = Clock()
    limit = RateLimit(2, 10.0, clock=clock)
    assert limit.attempt("a") is None
    clock.now = 4.0
    assert limit.attempt("a") is None
    assert [limit.attempt("a") for _ in range(1000)] == [6] * 1000
    assert limit.attempt("b") is None
    clock.now = 9.5
    assert limit.attempt("a") == 1
    clock.now = 10.0
    assert limit.attempt("a") is None
    assert limit.attempt("a") == 4


async def test_who_asks_too_often_waits_and_not_many_at_a_time() -> None:
    tarpit = Tarpit(PATIENCE, most=3)
    attempts = [asyncio.create_task(tarpit.wait()) for _ in range(5)]
    await asyncio.gather(*attempts[3:])
    assert [one.done() for one in attempts] == [False, False, False, True, True]
    attempts[0].cancel()
    await asyncio.wait(attempts[:1])
    later = asyncio.create_task(tarpit.wait())
    await asyncio.sleep(0)
    assert not later.done()


def test_memory_is_bounded() -> None:
    limit = RateLimit(3, 10.0, keys=100)
    for number in range(10_000):
        limit.attempt(str(number))
    assert len(limit) == 100


def test_what_counts_as_one_address() -> None:
    assert address_key("192.0.2.7") == address_key("::ffff:192.0.2.7") == "192.0.2.7"
    assert address_key("2001:db8::1") == address_key("2001:db8::ffff:1") != address_key("2001:db8:0:1::1")
    assert address_key("fe80::1%eth0") == address_key("fe80::2")
    assert address_key("") == ""


def test_a_look_whether_the_limit_is_reached_counts_nothing():
    clock = Clock()
    limit = RateLimit(2, 10.0, clock=clock)
    for _ in range(5):
        assert not limit.is_reached("a")
    assert (limit.attempt("a"), limit.attempt("a")) == (None, None)
    assert limit.is_reached("a") and not limit.is_reached("b")
    clock.now += 10.0
    assert not limit.is_reached("a")
