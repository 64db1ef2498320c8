"""How much a peer may weigh in a mean."""

import asyncio
import math
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from hivemind.proto import averaging_pb2

from trainer.averaging.groups import StepwiseAverager

AVERAGER: Any = SimpleNamespace(heaviest=100.0)


def passed_on(*weights: float) -> list[float]:
    async def parts() -> AsyncIterator[averaging_pb2.AveragingData]:
        for weight in weights:
            yield averaging_pb2.AveragingData(weight=weight)

    async def collect() -> list[float]:
        return [part.weight async for part in StepwiseAverager._within_weight(AVERAGER, parts())]

    return asyncio.run(collect())


def test_a_peer_weighs_what_it_has_computed_up_to_some_batches():
    assert passed_on(0.0, 1.0, 100.0, 101.0, 1e30) == pytest.approx([0.0, 1.0, 100.0, 100.0, 100.0])


@pytest.mark.parametrize("weight", [-1.0, math.inf, math.nan])
def test_what_is_no_weight_leaves_the_peer_out(weight: float):
    with pytest.raises(ValueError, match="no weight"):
        passed_on(1.0, weight)
