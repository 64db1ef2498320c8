"""Peers that are refused again and again, over real libp2p."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
from hivemind.p2p import P2P, P2PContext, P2PHandlerError, PeerID
from hivemind.p2p.p2p_daemon_bindings.control import ControlClient
from hivemind.proto import dht_pb2
from hivemind.utils.asyncio import anext, as_aiter

from swarm.access import refusals
from swarm.access.refusals import MOST_REFUSALS, WINDOW, count_refusal, is_blocked
from swarm.hivemind_patches.blocked_callers import block_refused_callers
from swarm.rate_limit import RateLimit
from tests.support.waiting import PATIENCE

BAD, GOOD = dht_pb2.PingRequest(validate=True), dht_pb2.PingRequest()


class CountingHandler:
    """Refuses some calls, and counts those that reach it."""

    looked = 0

    async def one(self, request: dht_pb2.PingRequest, context: P2PContext) -> dht_pb2.PingResponse:
        self.looked += 1
        if request.validate:
            count_refusal()
        return dht_pb2.PingResponse(available=not request.validate)

    async def many(
        self, stream: AsyncIterator[dht_pb2.PingRequest], context: P2PContext
    ) -> AsyncIterator[dht_pb2.PingResponse]:
        self.looked += 1
        async for request in stream:
            if request.validate:
                count_refusal()
            yield dht_pb2.PingResponse(available=not request.validate)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """It stands still."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(refusals, "_refusals", RateLimit(MOST_REFUSALS, WINDOW, clock=lambda: clock.now))
    return clock


@pytest.fixture(autouse=True)
def blocking(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("add_unary_handler", "stream_handler"):
        monkeypatch.setattr(ControlClient, name, getattr(ControlClient, name))  # put back afterwards
    block_refused_callers()


async def call(caller: P2P, host: P2P, request: dht_pb2.PingRequest) -> bool | str:
    try:
        answer = await caller.call_protobuf_handler(host.peer_id, "one", request, dht_pb2.PingResponse)
        return bool(answer.available)
    except P2PHandlerError as error:
        return str(error)


async def stream(caller: P2P, host: P2P, request: dht_pb2.PingRequest) -> bool | None:
    answers = await caller.iterate_protobuf_handler(host.peer_id, "many", as_aiter(request), dht_pb2.PingResponse)
    try:
        return bool((await anext(answers)).available)
    except StopAsyncIteration:
        return None


async def one_host_and_two_callers() -> tuple[CountingHandler, P2P, P2P, P2P]:
    door, host = CountingHandler(), await P2P.create(host_maddrs=["/ip4/127.0.0.1/tcp/0"])
    await host.add_protobuf_handler("one", door.one, dht_pb2.PingRequest)
    await host.add_protobuf_handler("many", door.many, dht_pb2.PingRequest, stream_input=True, stream_output=True)
    known = await host.get_visible_maddrs()
    return door, host, await P2P.create(initial_peers=known), await P2P.create(initial_peers=known)


async def bothered_with(kind: str, clock: SimpleNamespace) -> None:
    door, host, pest, guest = await one_host_and_two_callers()
    try:
        bother = call if kind == "calls" else stream
        assert await call(pest, host, GOOD) is True
        for _ in range(MOST_REFUSALS):
            assert await bother(pest, host, BAD) is not True
        looked = door.looked
        assert "refused too often" in str(await call(pest, host, GOOD))
        assert await stream(pest, host, GOOD) is None
        assert door.looked == looked
        assert await call(guest, host, GOOD) is True and await stream(guest, host, GOOD) is True
        clock.now += WINDOW
        assert await call(pest, host, GOOD) is True and await stream(pest, host, GOOD) is True
    finally:
        for one in (pest, guest, host):
            await one.shutdown()


@pytest.mark.parametrize("kind", ["calls", "streams"])
def test_whoever_is_refused_too_often_is_not_heard_and_everybody_else_is(kind: str, clock: SimpleNamespace):
    asyncio.run(asyncio.wait_for(bothered_with(kind, clock), PATIENCE))


def test_a_refusal_may_name_its_peer(clock: SimpleNamespace):
    peer = PeerID(b"peer")
    for _ in range(MOST_REFUSALS):
        assert not is_blocked(peer)
        count_refusal(peer)
    assert is_blocked(peer) and not is_blocked(PeerID(b"another"))


def test_a_refusal_outside_of_any_call_is_nobodys(clock: SimpleNamespace):
    for _ in range(2 * MOST_REFUSALS):
        count_refusal()
    assert len(refusals._refusals) == 0
