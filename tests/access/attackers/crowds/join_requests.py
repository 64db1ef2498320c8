"""Attacks on the coordinator's HTTP service, and the life of somebody who is banned."""

import asyncio
import contextlib
import time
from typing import Any
from urllib.parse import urlsplit

import httpx

from coordinator.http.request_limits import JoinLimits
from swarm.identity import load_identity
from tests.access.attackers.credentials import Scene
from tests.access.attackers.crowds.crowd import Crowd
from tests.access.attackers.intruder import Intruder, ask_at_door, join_body, say

FLOODER, VOLUNTEER = "127.0.0.67", "127.0.0.2"
ATTEMPTS = 1000
AT_ONCE = 20  # connections
LOOK_EVERY = 2.0  # seconds
WATCHES = 100.0  # seconds in which a banned peer goes on trying
QUIET = 2  # looks in a row without any gain until nothing is to be had any more


async def crowd(scene: Scene, seconds: float, knocking: int = 0) -> dict[str, Any]:
    """A thousand sockets that are held in vain, and so many who try to join on and on, at the volunteers' address."""
    parts = urlsplit(scene.url)
    pressing = Crowd(parts.hostname or "", parts.port or 0, source="127.0.0.1")
    press = asyncio.create_task(pressing.press())
    while pressing.opened < pressing.sockets:
        await asyncio.sleep(0.1)
    say({"began": time.time()})
    statuses: list[int] = []
    until = time.monotonic() + seconds

    async def knock(client: httpx.AsyncClient) -> None:
        while time.monotonic() < until:
            with contextlib.suppress(httpx.TransportError):  # this connection has made room, too
                statuses.append((await client.post(f"{scene.url}/api/join", json={})).status_code)
            await asyncio.sleep(0.2)

    async with httpx.AsyncClient(timeout=60.0) as client:
        await asyncio.gather(asyncio.sleep(seconds), *(knock(client) for _ in range(knocking)))
    press.cancel()
    return {"opened": pressing.opened, "held": pressing.held, "refused": statuses.count(429)}


async def flood(scene: Scene) -> dict[str, Any]:
    """A thousand attempts to join from one address; somebody else joins meanwhile."""
    identity = load_identity(scene.folder / "flooder.key")
    statuses: list[int] = []
    longest = 0

    async def attempt(client: httpx.AsyncClient, number: int) -> None:
        nonlocal longest
        body = join_body(identity, f"crowd {number % 7}") if number % 2 else {"junk": "x" * 500}
        answer = await client.post(f"{scene.url}/api/join", json=body)
        statuses.append(answer.status_code)
        longest = max(longest, int(answer.headers.get("retry-after", 0)))

    transport = httpx.AsyncHTTPTransport(local_address=FLOODER, limits=httpx.Limits(max_connections=AT_ONCE), retries=2)
    async with httpx.AsyncClient(transport=transport, timeout=httpx.Timeout(60.0, pool=None)) as client:
        crowd = asyncio.gather(*(attempt(client, number) for number in range(ATTEMPTS)))
        await asyncio.sleep(1.0)
        elsewhere = await asyncio.to_thread(ask_at_door, scene.url, identity, "volunteer", VOLUNTEER)
        await crowd
        health = await client.get(f"{scene.url}/healthz")
    return {
        "statuses": {str(status): statuses.count(status) for status in set(statuses)},
        "elsewhere": elsewhere.status_code,
        "health": health.status_code,
        "retry_after": longest,
    }


async def patient(scene: Scene) -> dict[str, Any]:
    """Somebody at the address that the thousand attempts came from, until it is let in again."""
    identity = load_identity(scene.folder / "patient.key")
    until = time.monotonic() + JoinLimits.window + LOOK_EVERY
    while True:
        answer = await asyncio.to_thread(ask_at_door, scene.url, identity, "patient", FLOODER)
        if answer.status_code == 200 or time.monotonic() > until:
            return {"status": answer.status_code}
        await asyncio.sleep(LOOK_EVERY)


async def banned(scene: Scene, name: str) -> dict[str, Any]:
    """A second device of somebody who will be banned; it ignores notices and goes on trying with its pass."""
    intruder = await Intruder.create(scene, "rogue")
    own = intruder.enter(name)
    say({"before": await intruder.gains(own)})
    since = last_gain = time.time()
    quiet = 0
    while time.time() < since + WATCHES and quiet < QUIET:
        if await intruder.gains(own):
            last_gain, quiet = time.time(), 0
        else:
            quiet += 1
        await asyncio.sleep(0.5)
    again = ask_at_door(scene.url, intruder.identity, name)
    return {"last_gain": last_gain, "quiet": quiet, "join_status": again.status_code}
