"""What streams of a round may do, and what happens to the others when one of them breaks."""

import asyncio

import pytest
import torch
from hivemind.averaging.allreduce import AllreduceException

from tests.waiting import PATIENCE
from trainer.averaging.runner import (
    AHEAD_BYTES,
    AHEAD_LEAST,
    AHEAD_SECONDS,
    SHORTEST_SILENCE,
    longest_silence,
    pieces_ahead,
)
from trainer.averaging.witness import FiniteReducer, NotFinite

PIECE = 2**15  # bytes


def test_a_thin_line_is_not_filled_with_more_than_is_needed():
    assert pieces_ahead(upload=0.0, streams=8, piece=PIECE) == AHEAD_BYTES / 8 / PIECE
    assert pieces_ahead(upload=8 * PIECE, streams=2, piece=PIECE) == 4 * AHEAD_SECONDS
    assert pieces_ahead(upload=PIECE, streams=8, piece=PIECE) == pieces_ahead(0.0, 8, AHEAD_BYTES) == AHEAD_LEAST


def test_who_is_silent_for_longer_than_a_round_should_take_is_left_out():
    assert longest_silence(None, patience=30.0) == 30.0
    assert longest_silence(0.1, patience=30.0) == SHORTEST_SILENCE
    assert longest_silence(12.0, patience=30.0) == 12.0
    assert longest_silence(60.0, patience=30.0) == 30.0


def test_a_sender_that_breaks_off_does_not_break_the_piece_of_the_others():
    async def average() -> list[torch.Tensor]:
        reducer = FiniteReducer((torch.Size([2]),), 3)
        reducer.begin(own=0, now=0.0)
        senders = [asyncio.create_task(reducer.accumulate_part(i, 0, torch.full((2,), float(i)))) for i in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        senders[1].cancel()
        await asyncio.wait([senders[1]])
        reducer.on_sender_failed(1)
        mean = await reducer.accumulate_part(2, 0, torch.full((2,), 8.0))
        return [mean, await senders[0]]

    for mean in asyncio.run(average()):
        torch.testing.assert_close(mean, torch.full((2,), 3.0))


def test_a_piece_that_a_member_sends_twice_takes_nobodys_place():
    async def reduce() -> tuple[torch.Tensor, dict[int, int]]:
        reducer = FiniteReducer((torch.Size([2]),), 3)
        reducer.begin(own=0, now=0.0)
        pieces = [asyncio.create_task(reducer.accumulate_part(i, 0, torch.full((2,), float(i)))) for i in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(AllreduceException, match="twice"):
            await reducer.accumulate_part(1, 0, torch.full((2,), 100.0))
        reducer.on_sender_failed(1)  # which upstream does then
        mean = await reducer.accumulate_part(2, 0, torch.full((2,), 8.0))
        await asyncio.gather(*pieces)
        return mean, dict(reducer.added)

    mean, added = asyncio.run(reduce())
    torch.testing.assert_close(mean, torch.full((2,), 3.0))
    assert added == {0: 1, 1: 1, 2: 1}, "who was left out after its last piece is in the mean all the same"


@pytest.mark.parametrize(("size", "weight"), [(1, 2.0), (3, 1.0), (3, 0.0)])
def test_a_part_of_another_shape_is_left_out_and_harms_nobody(size: int, weight: float) -> None:
    async def reduce() -> torch.Tensor:
        reducer = FiniteReducer((torch.Size([2]),), 2)
        reducer.begin(own=0, now=0.0)
        own = asyncio.create_task(reducer.accumulate_part(0, 0, torch.ones(2), 1.0))
        with pytest.raises(NotFinite):
            await reducer.accumulate_part(1, 0, torch.ones(size), weight)
        reducer.on_sender_failed(1)
        assert reducer.not_finite == {1}
        return await asyncio.wait_for(own, PATIENCE)

    assert asyncio.run(reduce()).tolist() == [1.0, 1.0]
