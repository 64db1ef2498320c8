"""Answers that arrive to their last message: what both sides do for it, over real libp2p and by hand."""

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import AsyncIterator  # noqa: UP035  (hivemind looks for typing's)

import pytest
from hivemind.averaging import DecentralizedAverager
from hivemind.p2p import P2P, P2PContext, ServicerBase
from hivemind.proto import averaging_pb2

from tests.waiting import PATIENCE
from trainer.averaging import streams
from trainer.averaging.groups import StepwiseAverager
from trainer.averaging.streams import StreamCutShort, until_end, with_end

END = averaging_pb2.AveragingData()
SLOW = 0.3  # seconds that the reader takes for a message
PARTS = 3


def part(number: int) -> averaging_pb2.AveragingData:
    return averaging_pb2.AveragingData(weight=float(number))


async def answer(*messages: averaging_pb2.AveragingData) -> AsyncGenerator[averaging_pb2.AveragingData, None]:
    for message in messages:
        yield message


def test_an_answer_is_read_up_to_its_end():
    async def read() -> list[float]:
        return [message.weight async for message in until_end(answer(part(1), part(2), END), END)]

    assert asyncio.run(read()) == [1.0, 2.0]


def test_an_answer_that_breaks_off_is_told_from_a_whole_one():
    got: list[float] = []

    async def read() -> None:
        async for message in until_end(answer(part(1), part(2)), END):
            got.append(message.weight)  # noqa: PERF401  (an exception ends it)

    with pytest.raises(StreamCutShort, match="before all of the answer"):
        asyncio.run(read())
    assert got == [1.0, 2.0]


@pytest.mark.parametrize("call", ["rpc_aggregate_part", "rpc_download_state"])
def test_averagers_notice_that_an_answer_broke_off(monkeypatch: pytest.MonkeyPatch, call: str):
    async def broken(request: object) -> AsyncGenerator[averaging_pb2.AveragingData, None]:
        return answer(part(1))

    calls = ("rpc_join_group", "rpc_aggregate_part", "rpc_download_state", "rpc_probe_line")
    stub = SimpleNamespace(**dict.fromkeys(calls, broken))
    monkeypatch.setattr(DecentralizedAverager, "get_stub", lambda *args, **kwargs: stub)

    async def ask() -> list[averaging_pb2.AveragingData]:
        answered = await getattr(StepwiseAverager.get_stub(None, None), call)(None)
        return [message async for message in answered]

    with pytest.raises(StreamCutShort):
        asyncio.run(ask())


def test_whoever_answers_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streams, "READING", 0.1)

    async def read() -> list[float]:
        return [message.weight async for message in with_end(answer(part(1)), END)]

    assert asyncio.run(asyncio.wait_for(read(), PATIENCE)) == [1.0, 0.0]


class Reducer(ServicerBase):
    """Answers at once, and notes when it was done with an answer."""

    def __init__(self) -> None:
        self.done = asyncio.Event()

    async def rpc_reduce(
        self, request: averaging_pb2.AveragingData, context: P2PContext
    ) -> AsyncIterator[averaging_pb2.AveragingData]:
        try:
            async for message in with_end(answer(*map(part, range(1, PARTS + 1))), END):
                yield message
        finally:
            self.done.set()


def test_whoever_answers_waits_until_the_other_side_has_read_all():
    async def read() -> None:
        ours = await P2P.create(host_maddrs=["/ip4/127.0.0.1/tcp/0"])
        theirs = await P2P.create(host_maddrs=["/ip4/127.0.0.1/tcp/0"], initial_peers=await ours.get_visible_maddrs())
        reducer = Reducer()
        await reducer.add_p2p_handlers(ours)
        try:
            stream = await Reducer.get_stub(theirs, ours.peer_id).rpc_reduce(part(0))
            weights: list[float] = []
            async for message in until_end(stream, END):
                await asyncio.sleep(SLOW)
                assert not reducer.done.is_set(), f"it was done when {len(weights)} of {PARTS} parts had been read"
                weights.append(message.weight)
            assert weights == [1.0, 2.0, 3.0]
            await asyncio.wait_for(reducer.done.wait(), PATIENCE)  # the reader closed the stream
        finally:
            await theirs.shutdown()
            await ours.shutdown()

    asyncio.run(read())
