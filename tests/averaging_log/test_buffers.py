"""Each buffer of gradients is in at most one header."""

from averaging.protocol.buffers import Buffers


def test_a_retry_offers_closed_buffers_beside_each_other() -> None:
    buffers = Buffers()
    buffers.add(10, "first")
    assert buffers.offer() == ((0, 10),)
    buffers.add(5, "second")
    buffers.add(1, "third")
    assert buffers.offer() == ((0, 10), (1, 6))
    assert buffers.closed[1].gradients == ["second", "third"]
    assert buffers.weight == 16


def test_a_header_takes_just_the_buffers_that_it_names() -> None:
    buffers = Buffers()
    buffers.add(10)
    buffers.offer()
    buffers.add(5)
    buffers.offer()
    buffers.remove((0, 7))
    assert buffers.offer() == ((1, 5),)


def test_an_empty_buffer_is_not_offered() -> None:
    buffers = Buffers()
    assert buffers.offer() == ()
    buffers.add(1)
    assert buffers.offer() == buffers.offer() == ((0, 1),)


def test_numbers_are_not_used_twice_after_everything_was_dropped() -> None:
    buffers = Buffers()
    buffers.add(1)
    buffers.offer()
    buffers.add(2)
    buffers.drop()
    assert (buffers.weight, buffers.offer()) == (0, ())
    buffers.add(3)
    assert buffers.offer() == ((2, 3),)
