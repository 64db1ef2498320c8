"""Attacks of those who have no pass of their own to show."""

import asyncio
import base64
import itertools
import re
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hivemind.utils import MSGPackSerializer

from swarm.access.passes import Authority, load_authority
from swarm.access.refusals import MOST_REFUSALS
from tests.access.attackers.credentials import Credentials, Scene
from tests.access.attackers.intruder import DEEP, EVERYTHING, Intruder

CREDENTIALS = re.compile(rb"\[author:([A-Za-z0-9+/=]+):")


async def welcome(scene: Scene) -> dict[str, Any]:
    """No attack: with a real pass everything opens that the attacks try, or they would prove nothing."""
    intruder = await Intruder.create(scene, "welcome")
    own = intruder.enter("welcome")
    got = await intruder.gains(own)
    for _ in range(20):  # a busy machine may answer later than it is waited for
        if all(gain in str(got) for gain in EVERYTHING):
            break
        got += await intruder.gains(own)
    return {"got": got, "refusals": intruder.refusals}


async def no_pass(scene: Scene) -> dict[str, Any]:
    """hivemind's calls as anybody with the library makes them."""
    intruder = await Intruder.create(scene, "no-pass")
    got = await intruder.gains(None)
    protocol = await intruder.dht(None)
    for _ in range(10):  # many at once: refusals count within seconds, and a busy machine takes its time for each
        got += await asyncio.gather(*(intruder.ping(protocol, intruder.targets[0]) for _ in range(2 * MOST_REFUSALS)))
        if any("refused too often" in one for one in intruder.refusals):
            break
    return {"got": [one for one in got if one], "refusals": intruder.refusals}


async def forged_pass(scene: Scene) -> dict[str, Any]:
    """A pass that another authority gave, and bytes that are none; some of them have crashed who looked at them."""
    intruder = await Intruder.create(scene, "forger")
    another = Authority(Ed25519PrivateKey.generate()).issue(scene.run, "asha", intruder.identity.peer_id, 3600)
    got = await intruder.gains(Credentials(intruder.identity, another.to_bytes()))
    for no_pass in (b"let me in", DEEP):
        got += await intruder.gains(Credentials(intruder.identity, no_pass))
    return {"got": got, "refusals": intruder.refusals}


async def expired_pass(scene: Scene) -> dict[str, Any]:
    """A pass of the run's own authority that was good until a second ago."""
    intruder = await Intruder.create(scene, "late")
    old = load_authority(scene.authority).issue(scene.run, "late", intruder.identity.peer_id, -1)
    return {
        "got": await intruder.gains(Credentials(intruder.identity, old.to_bytes())),
        "refusals": intruder.refusals,
    }


async def borrowed_pass(scene: Scene) -> dict[str, Any]:
    """Passes and public keys of others, which stand in their records, with a key of one's own."""
    intruder = await Intruder.create(scene, "thief")
    lent = await _in_records(intruder)
    shows = [Credentials(intruder.identity, shown, key) for own, shown in lent for key in (None, own)]
    got = list(itertools.chain(*await asyncio.gather(*map(intruder.gains, shows))))
    return {"got": got, "refusals": intruder.refusals, "lent": len(lent)}


async def _in_records(intruder: Intruder) -> set[tuple[bytes, bytes]]:
    """Public keys and passes of the swarm's peers, read with the help of somebody who may."""
    protocol = await intruder.dht(intruder.enter("accomplice"))
    results = await intruder.found(protocol, intruder.targets[0], ("sessions", "contacts"))
    lent: set[tuple[bytes, bytes]] = set()
    for result in results:
        for encoded in CREDENTIALS.findall(result.value):
            public_key, shown = MSGPackSerializer.loads(base64.b64decode(encoded))
            lent.add((public_key, shown))
    return lent


async def other_peer(scene: Scene) -> dict[str, Any]:
    """A real pass with its real key, but calling from another libp2p peer than it was given to."""
    owner, stranger = await Intruder.create(scene, "owner"), await Intruder.create(scene, "stranger")
    got = await stranger.gains(owner.enter("owner"))
    return {"got": got, "refusals": stranger.refusals}
