"""A member that computes nothing and wants credit for it."""

import asyncio
import time
import uuid
from typing import Any

from hivemind.utils import get_dht_time

from swarm.records import CONTRIBUTIONS_KEPT, mark_of
from tests.access.credentials import Scene, sealed
from tests.access.inside import LIE_EVERY, LIES_LAST
from tests.access.intruder import Intruder, say
from tests.access.reading import told_step

CLAIMED = 100_000  # samples of each global step


async def freeloader(scene: Scene) -> dict[str, Any]:
    """Claims of samples in all recent global steps, the first ones and the next, seen by itself."""
    intruder = await Intruder.create(scene, "freeloader")
    own = intruder.enter("freeloader")
    protocol = await intruder.dht(own)
    session, started, stored = uuid.uuid4().hex, time.time(), 0
    say({"began": True})
    until = time.monotonic() + LIES_LAST
    while time.monotonic() < until:
        step = await told_step(scene)
        seen = [{"peer": mark_of(intruder.identity.peer_id), "samples": CLAIMED}]
        steps = [*range(max(0, step - CONTRIBUTIONS_KEPT + 3), step + 2), 0]
        record = {
            "session_id": session,
            "name": "freeloader",
            "shown_pass": own.shown,
            "device": "a very large computer",
            "country": "",
            "client_mode": False,
            "addresses": [],
            "started": started,
            "time": time.time(),
            "step": step,
            "samples_per_second": 1e4,
            "averaging_rounds": 1,
            "averaging_failures": 0,
            "data_wait_fraction": 0.0,
            "left": False,
            "contributions": [
                {"step": one, "samples": CLAIMED, "tokens": 64 * CLAIMED, "loss": 6.0, "seen": seen}
                for one in steps[-CONTRIBUTIONS_KEPT:]
            ],
        }
        told = sealed(scene, own, "sessions", own.identity.subkey, record, get_dht_time() + 60)
        stored += sum([await intruder.store(protocol, peer, told) for peer in intruder.targets])
        await asyncio.sleep(LIE_EVERY)
    return {"stored": stored}
