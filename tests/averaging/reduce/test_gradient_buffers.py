"""Buffers stay apart, and a piece that is sent again is the same."""

import pytest
import torch

from averaging.reduce.gradient_buffers import GradientBuffers
from averaging.reduce.gradient_codec import LARGEST_WEIGHT, Compression, decode_piece
from averaging.reduce.grid import Grid
from tests.averaging.reduce.rounds import chunks_of_round, drawn, sender

GRID = Grid(70_000)  # eight chunks and a rest
LAST = GRID.count - 1


def mean_in(buffers: GradientBuffers, numbers: list[int], chunk: int = LAST) -> torch.Tensor:
    piece = buffers.piece(numbers, chunk)
    return torch.from_numpy(decode_piece(piece, buffers.weight(numbers), GRID.size(chunk), "none"))


def test_a_piece_is_the_mean_over_the_masked_tokens_of_all_planned_buffers():
    first, second, third = (drawn(GRID, seed) for seed in range(3))
    buffers = GradientBuffers(GRID, "none")
    buffers.add(0, first, 100)
    buffers.add(0, second, 7)
    buffers.add(1, third, 50)
    place = GRID.slice(LAST)
    assert [buffers.weight(numbers) for numbers in ([0], [1], [0, 1])] == [107, 50, 157]
    torch.testing.assert_close(mean_in(buffers, [0]), (first + second)[place] / 107)
    torch.testing.assert_close(mean_in(buffers, [1]), third[place] / 50)
    torch.testing.assert_close(mean_in(buffers, [0, 1]), (first + second + third)[place] / 157)


@pytest.mark.parametrize("kind", ["8bit", "float16", "none"])
def test_what_is_sent_again_is_the_same_to_the_byte(kind: Compression):
    buffers = sender(GRID, kind, [(drawn(GRID, 0), 9)])
    buffers.add(1, drawn(GRID, 1), 5)
    sent = [buffers.piece([0], chunk) for chunk in range(GRID.count)]
    buffers.add(2, drawn(GRID, 2), 5)  # it goes on gathering meanwhile
    assert [buffers.piece([0], chunk) for chunk in range(GRID.count)] == sent
    both = buffers.piece([0, 1], 3)
    assert both != sent[3] and buffers.piece([0], 3) == sent[3] and buffers.piece([0, 1], 3) == both


def test_a_failed_round_and_the_next_with_other_members_take_each_buffer_once():
    one, two, other = drawn(GRID, 0), drawn(GRID, 1), drawn(GRID, 2)
    a, b, c = (GradientBuffers(GRID, "none") for _ in range(3))
    a.add(0, one.clone(), 10)
    b.add(0, drawn(GRID, 3), 20)
    failed = chunks_of_round({"a": a, "b": b}, {"a": [0], "b": [0]}, GRID, "none")
    a.add(1, two.clone(), 30)
    c.add(0, other.clone(), 40)
    retried = chunks_of_round({"a": a, "c": c}, {"a": [0, 1], "c": [0]}, GRID, "none")
    fresh = sender(GRID, "none", [(one, 10), (two, 30)]), sender(GRID, "none", [(other, 40)])
    expected = chunks_of_round(dict(zip("ac", fresh, strict=True)), {"a": [0], "c": [0]}, GRID, "none")
    assert retried == expected and retried != failed
    a.keep([1])  # the header of the failed round was committed after all
    again = chunks_of_round({"a": a, "c": c}, {"a": [1], "c": [0]}, GRID, "none")
    fresh = sender(GRID, "none", [(two, 30)]), sender(GRID, "none", [(other, 40)])
    assert again == chunks_of_round(dict(zip("ac", fresh, strict=True)), {"a": [0], "c": [0]}, GRID, "none")


def test_buffers_that_were_dropped_are_not_sent_though_their_pieces_were():
    buffers = sender(GRID, "8bit", [(drawn(GRID, 0), 9)])
    buffers.add(1, drawn(GRID, 1), 5)
    buffers.piece([0, 1], 0)
    buffers.keep([1])
    with pytest.raises(LookupError, match=r"buffers \[0, 1\], and \[0\] are not there"):
        buffers.piece([0, 1], 0)
    assert buffers.weight([0, 1]) == 5
    with pytest.raises(LookupError):
        buffers.piece([], 0)


def test_a_buffer_that_was_sent_or_followed_takes_nothing_more():
    buffers = sender(GRID, "8bit", [(drawn(GRID, 0), 9)])
    sent = buffers.piece([0], 0)
    with pytest.raises(ValueError, match="buffer 0 is closed, gradients go into 1 or a later one"):
        buffers.add(0, drawn(GRID, 1), 1)
    buffers.add(4, drawn(GRID, 1), 1)
    with pytest.raises(ValueError, match="buffer 3 is closed"):
        buffers.add(3, drawn(GRID, 1), 1)
    assert buffers.piece([0], 0) == sent and buffers.weight([0, 3, 4]) == 10


@pytest.mark.parametrize("weight", [0, -3, LARGEST_WEIGHT])
def test_weights_that_fit_into_no_piece_are_refused(weight: int):
    buffers = sender(GRID, "8bit", [(drawn(GRID, 0), 9)])
    with pytest.raises(ValueError, match="a buffer weighs"):
        buffers.add(0, drawn(GRID, 1), weight)


@pytest.mark.parametrize("gradient", [torch.zeros(69_999), torch.zeros(70_000, dtype=torch.float16)], ids=str)
def test_a_gradient_of_another_shape_or_type_is_refused(gradient: torch.Tensor):
    with pytest.raises(ValueError, match="a gradient has 70000 elements of float32"):
        GradientBuffers(GRID, "8bit").add(0, gradient, 1)


def test_sums_over_many_tokens_fit_into_float16():
    buffers = sender(GRID, "float16", [(torch.full((GRID.elements,), 2.0 * 10**7), 10**7)])
    piece = buffers.piece([0], 0)
    assert (decode_piece(piece, 10**7, GRID.size(0), "float16") == 2.0).all()
