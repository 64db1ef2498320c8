"""Attackers that do not tire, for as long as a measurement lasts."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from averaging.log.header import Ballot, Head
from averaging.protocol.messages import Report, Status
from swarm.access.passes import Authority
from tests.access.attackers.credentials import Credentials, Scene
from tests.access.attackers.intruder import Intruder, join_body, say
from tests.access.attackers.liars import FAR, NOTHING
from tests.access.attackers.streams import conversation

PAUSE = 0.2  # seconds between two calls of the same kind to the same peer
KNOCKS = 0.05  # seconds between two attempts to join


async def siege(scene: Scene, seconds: float) -> dict[str, Any]:
    """Calls without a pass, with a forged one, absurd heads with a real one, and a crowd at the door."""
    calls = 0
    outsider, liar = await Intruder.create(scene, "outsider"), await Intruder.create(scene, "besieger")
    another = Authority(Ed25519PrivateKey.generate()).issue(scene.run, "x", outsider.identity.peer_id, 3600)
    forged, own = Credentials(outsider.identity, another.to_bytes()), liar.enter("besieger")
    stranger, forger = await outsider.dht(None), await outsider.dht(forged)
    say({"began": True})
    until = time.monotonic() + seconds

    async def again_and_again(call: Callable[[], Awaitable[object]], pause: float) -> None:
        nonlocal calls
        while time.monotonic() < until:
            await call()
            calls += 1
            await asyncio.sleep(pause)

    async def lie(peer: Any) -> None:
        far = Head(FAR, NOTHING)

        async def tell() -> None:
            async with conversation(liar.p2p, peer, liar.hello(own.shown)) as one:
                one.tell(Status(far, Ballot(2**62, liar.hello(b"").session), convenes=True, gathered=FAR))
                await one.ask(Report(far, FAR), Status)

        await liar.attempt(tell)

    async with httpx.AsyncClient(timeout=60.0) as client:
        body = join_body(outsider.identity, "crowd")
        kinds: list[Callable[..., Awaitable[object]]] = [
            lambda peer: outsider.ping(stranger, peer),
            lambda peer: outsider.find(forger, peer),
            lambda peer: outsider.store_own(forger, peer, forged),
            lambda peer: outsider.converse(peer, forged.shown),
            lie,
        ]
        await asyncio.gather(
            again_and_again(lambda: outsider.attempt(lambda: client.post(f"{scene.url}/api/join", json=body)), KNOCKS),
            *(
                again_and_again(lambda kind=kind, peer=peer: kind(peer), PAUSE)  # type: ignore[misc]
                for kind, peer in itertools.product(kinds, outsider.targets)
            ),
        )
    return {"calls": calls, "refusals": len(outsider.refusals)}
