"""Each buffer of gradients is in at most one header."""

import math

import pytest

from averaging.protocol.buffers import REMEMBERED, Buffers, is_fresh


def weights(buffers: Buffers) -> tuple[tuple[int, int], ...]:
    """Numbers and masked tokens of what is offered."""
    return tuple((offer.number, offer.weight) for offer in buffers.offer())


def test_a_retry_offers_closed_buffers_beside_each_other() -> None:
    buffers = Buffers()
    buffers.add(10)
    assert weights(buffers) == ((0, 10),)
    buffers.add(5)
    buffers.add(1)
    assert weights(buffers) == ((0, 10), (1, 6))
    assert buffers.samples == 3


def test_a_header_takes_just_the_buffers_that_it_names() -> None:
    buffers = Buffers()
    buffers.add(10)
    buffers.offer()
    buffers.add(5)
    buffers.offer()
    buffers.remove((0, 7))
    assert weights(buffers) == ((1, 5),)


def test_an_empty_buffer_is_not_offered() -> None:
    buffers = Buffers()
    assert buffers.offer() == ()
    buffers.add(1)
    assert weights(buffers) == weights(buffers) == ((0, 1),)


def test_numbers_are_not_used_twice_after_everything_was_dropped() -> None:
    buffers = Buffers()
    buffers.add(1)
    buffers.offer()
    buffers.add(2)
    buffers.drop()
    assert (buffers.samples, weights(buffers)) == (0, ())
    buffers.add(3)
    assert weights(buffers) == ((2, 3),)


def test_samples_and_losses_add_up_unless_one_is_not_known() -> None:
    buffers = Buffers()
    buffers.add(10, samples=2, loss=30.0)
    buffers.add(5, samples=1, loss=20.0)
    buffers.offer()
    buffers.add(1, samples=1)
    buffers.add(1, samples=1, loss=math.inf)
    assert [(offer.samples, offer.loss) for offer in buffers.offer()] == [(3, 50.0), (2, None)]


def test_headers_that_leave_out_what_was_offered_are_counted_among_the_last_ones() -> None:
    buffers = Buffers()
    buffers.decided((), is_whole=True)  # nothing was offered
    for number in range(2):
        buffers.add(1)
        buffers.offer()
        buffers.decided((number,), is_whole=True)
    assert buffers.late == 0
    buffers.add(1)
    buffers.offer()
    buffers.decided((), is_whole=True)
    buffers.decided((2,), is_whole=False)
    assert buffers.late == 2
    for number in range(3, 3 + REMEMBERED):
        buffers.add(1)
        buffers.offer()
        buffers.decided((number,), is_whole=True)
    assert buffers.late == 0


@pytest.mark.parametrize(("head", "counts"), [(6, True), (7, True), (8, True), (9, False)])
def test_a_gradient_counts_until_two_more_steps_are_decided(head: int, counts: bool) -> None:
    assert is_fresh(7, head) == counts


@pytest.mark.parametrize(
    ("offered", "gathered", "overlap", "expected"),
    [
        (0, 99, True, True),
        (0, 100, True, False),  # enough for the step that has not begun
        (100, 99, True, True),  # one step is being averaged, the next one is computed
        (100, 99, False, False),
        (120, 80, True, False),
    ],
)
def test_a_peer_computes_for_this_step_and_with_overlap_for_the_next(
    offered: int, gathered: int, overlap: bool, expected: bool
) -> None:
    buffers = Buffers()
    if offered:
        buffers.add(1, samples=offered)
        buffers.offer()
    buffers.add(1, samples=gathered)
    assert buffers.has_use(100, overlap=overlap) == expected
