"""Records of members in the DHT that are not their own, too long, or for ever."""

import asyncio
import math
import time
import uuid
from collections.abc import Callable
from typing import Any

from hivemind.dht.validation import DHTRecord
from hivemind.utils import MSGPackSerializer, get_dht_time

from swarm.dht.records import signer
from swarm.hivemind_patches.dht_protocol import PassProtocol
from tests.access.attackers.credentials import Scene, key_of, sealed
from tests.access.attackers.intruder import Intruder
from tests.access.attackers.reading import records_of


async def replayed(scene: Scene) -> dict[str, Any]:
    """Records that others signed, stored again where or for longer than they said."""
    intruder = await Intruder.create(scene, "replayer")
    own = intruder.enter("replayer")
    protocol = await intruder.dht(own)
    taken, got = 0, []
    for name in ("sessions", "contacts"):
        records = await records_of(intruder, protocol, name)
        subkeys = [record.subkey for record in records]
        taken += len(records)
        for record in records:
            for label, again in _replays(scene, record, [MSGPackSerializer.dumps(own.identity.subkey), *subkeys]):
                got += [f"{name}: {label}{where}" for where in await _kept(intruder, protocol, again)]
    return {"got": got, "taken": taken, "refusals": intruder.refusals[:5]}


async def _kept(intruder: Intruder, protocol: PassProtocol, record: DHTRecord) -> list[str]:
    """Where a record was taken."""
    return [f" at {peer}" for peer in intruder.targets if await intruder.store(protocol, peer, record)]


def _replays(scene: Scene, record: DHTRecord, subkeys: list[bytes]) -> list[tuple[str, DHTRecord]]:
    later = record.expiration_time + 60
    replays = [("later", DHTRecord(record.key, record.subkey, record.value, later))]
    replays += [("for ever", DHTRecord(record.key, record.subkey, record.value, math.inf))]
    replays += [
        (f"under another subkey, {when}", DHTRecord(record.key, subkey, record.value, expiration))
        for subkey in subkeys
        if subkey != record.subkey
        for when, expiration in (("as it was", record.expiration_time), ("later", later))
    ]
    replays += [
        (f"under {name}", DHTRecord(key_of(scene, name), record.subkey, record.value, record.expiration_time))
        for name in ("sessions", "contacts", "notices")
        if key_of(scene, name) != record.key
    ]
    return replays


async def for_others(scene: Scene) -> dict[str, Any]:
    """Records under the subkeys of others, and session records of others as our own."""
    intruder = await Intruder.create(scene, "mallory")
    own = intruder.enter("mallory")
    protocol = await intruder.dht(own)
    records = await records_of(intruder, protocol, "sessions")
    victims = [MSGPackSerializer.loads(record.subkey) for record in records]
    values = [MSGPackSerializer.loads(record.value.partition(b"[author:")[0]) for record in records]
    got = []
    soon = get_dht_time() + 60
    for subkey, value in zip(victims, values, strict=True):
        for label, name, place, content in (
            ("a session", "sessions", subkey, value | {"shown_pass": own.shown}),
            ("a session under two names", "sessions", own.identity.subkey + subkey, value | {"shown_pass": own.shown}),
            ("a word under a peer's id", "gossip", signer(subkey).to_bytes(), True),
            ("a record without a subkey", "sessions", None, "mine"),
        ):
            record = sealed(scene, own, name, place, content, soon)
            got += [f"{label}{where}" for where in await _kept(intruder, protocol, record)]
    booked = []
    for value in values:
        for session_id in (uuid.uuid4().hex, value["session_id"]):  # one of our own, then the victim's
            lie = value | {"session_id": session_id, "shown_pass": own.shown, "time": time.time()}
            record = sealed(scene, own, "sessions", own.identity.subkey, lie, get_dht_time() + 60)
            booked += [await intruder.store(protocol, peer, record) for peer in intruder.targets]
            await asyncio.sleep(3.0)  # until the coordinator has looked
    return {"got": got, "victims": len(victims), "stored": any(booked), "peer_id": str(intruder.identity.peer_id)}


async def odd_records(scene: Scene) -> dict[str, Any]:
    """Records of one's own that are too long for an answer to carry, or that never expire."""
    intruder = await Intruder.create(scene, "hoarder")
    own = intruder.enter("hoarder")
    protocol = await intruder.dht(own)
    long, soon, subkey = b"x" * 3_500_000, get_dht_time() + 60, own.identity.subkey
    odd: dict[str, Callable[[], DHTRecord]] = {
        "a word without an end": lambda: sealed(scene, own, "gossip", subkey, "hello", math.nan),
        "a long word": lambda: sealed(scene, own, "gossip", subkey, long, soon),
        "a long word under a peer's id": lambda: sealed(scene, own, "gossip", own_id, long, soon),
        "long notices": lambda: sealed(scene, own, "notices", subkey, long, soon),
        "a word for ever": lambda: sealed(scene, own, "gossip", subkey, "hello", math.inf),
        "a word for a year": lambda: sealed(scene, own, "gossip", subkey, "hello", soon + 3e7),
    }
    own_id = intruder.identity.peer_id.to_bytes()
    got = [f"{label}{where}" for label, make in odd.items() for where in await _kept(intruder, protocol, make())]
    return {"got": got, "refusals": intruder.refusals}
