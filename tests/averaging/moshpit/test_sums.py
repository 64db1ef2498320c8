"""What a mean weighs, so that it can be averaged again: sums over all peers stay what they were."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hivemind.proto import averaging_pb2

from trainer.averaging.moshpit.sums import WeighingReducer, mean_weight, say_weight

PIECE = torch.ones(4)


def reduced(weights: list[float], lost: int | None = None) -> WeighingReducer:
    """Has reduced one of two pieces from senders of these weights; `lost` left before it sent anything."""

    async def reduce() -> WeighingReducer:
        reducer = WeighingReducer([PIECE.shape] * 2, len(weights))
        assert reducer.mean_weight is None
        if lost is not None:
            reducer.on_sender_failed(lost)
        there = [number for number in range(len(weights)) if number != lost]
        await asyncio.gather(*(reducer.accumulate_part(one, 0, PIECE * one, weights[one]) for one in there))
        return reducer

    return asyncio.run(reduce())


def runner(own: float | None, heard: dict[str, float], weight: float = 5.0) -> Any:
    return SimpleNamespace(tensor_part_reducer=SimpleNamespace(mean_weight=own), heard=heard, weight=weight)


def test_a_share_of_the_mean_weighs_what_its_senders_weigh_on_average():
    assert reduced([1.0, 2.0, 6.0]).mean_weight == pytest.approx(3.0)


def test_a_sender_without_samples_takes_its_share_of_the_weight():
    assert reduced([4.0, 0.0]).mean_weight == pytest.approx(2.0)


def test_a_sender_that_left_counts_for_nothing():
    assert reduced([1.0, 2.0, 6.0], lost=2).mean_weight == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("own", "heard", "weight"),
    [
        (3.0, {}, 3.0),
        (None, {"a": 2.5}, 2.5),  # in client mode
        (3.0, {"a": 3.0, "b": 1e9}, 3.0),  # one liar among three
        (1e9, {}, 100.0),
        (None, {}, 5.0),  # nobody said anything: as before the round
    ],
)
def test_a_member_goes_on_at_the_weight_that_most_reducers_tell(own: Any, heard: dict[str, float], weight: float):
    assert mean_weight(runner(own, heard), heaviest=100.0) == weight


def test_what_is_no_weight_changes_nothing():
    assert mean_weight(runner(None, {"a": float("nan")}), heaviest=100.0) == 5.0


def test_only_pieces_of_the_mean_say_what_they_weigh():
    averaged = averaging_pb2.AveragingData(code=averaging_pb2.AVERAGED_PART)
    other = averaging_pb2.AveragingData(code=averaging_pb2.CANCELLED)
    for answer in (averaged, other):
        say_weight(answer, runner(3.0, {}))
    assert (averaged.weight, other.weight) == (3.0, 0.0)
    nothing = averaging_pb2.AveragingData(code=averaging_pb2.AVERAGED_PART)
    say_weight(nothing, runner(None, {}))
    assert nothing.weight == 0.0
