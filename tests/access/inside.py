"""Attacks of those who have a real pass and want more than it gives."""

import asyncio
import contextlib
import math
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hivemind.dht.validation import DHTRecord
from hivemind.p2p import PeerID
from hivemind.proto import averaging_pb2
from hivemind.utils import MSGPackSerializer, get_dht_time

from swarm.guarded_dht import GuardedProtocol
from swarm.records import signer
from tests.access.credentials import Credentials, Scene, key_of, schema_hash, sealed
from tests.access.intruder import Intruder, say
from tests.access.reading import records_of, told_step

LIES_LAST = 36.0  # seconds: some global steps, on a slow machine too
LIE_EVERY = 0.5
ABSURD_STEP, ABSURD_SPEED, ABSURD_COUNT = 10**6, 1e12, 10**9


async def replayed(scene: Scene) -> dict[str, Any]:
    """Records that others signed, stored again where or for longer than they said."""
    intruder = await Intruder.create(scene, "replayer")
    own = intruder.enter("replayer")
    protocol = await intruder.dht(own)
    taken, got = 0, []
    for name in ("sessions", "progress", "state_averager.all_averagers"):
        records = await records_of(intruder, protocol, name)
        subkeys = [record.subkey for record in records]
        taken += len(records)
        for record in records:
            for label, again in _replays(scene, record, [MSGPackSerializer.dumps(own.identity.subkey), *subkeys]):
                got += [f"{name}: {label}{where}" for where in await _kept(intruder, protocol, again)]
    return {"got": got, "taken": taken, "refusals": intruder.refusals[:5]}


async def _kept(intruder: Intruder, protocol: GuardedProtocol, record: DHTRecord) -> list[str]:
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
        for name in ("sessions", "progress", "notices", "grad_averager.0b")
        if key_of(scene, name) != record.key
    ]
    return replays


async def for_others(scene: Scene) -> dict[str, Any]:
    """Records under the subkeys of others, and session records in the name of others."""
    intruder = await Intruder.create(scene, "mallory")
    own = intruder.enter("mallory")
    protocol = await intruder.dht(own)
    records = await records_of(intruder, protocol, "sessions")
    victims = [MSGPackSerializer.loads(record.subkey) for record in records]
    values = [MSGPackSerializer.loads(record.value.partition(b"[author:")[0]) for record in records]
    got = []
    soon = get_dht_time() + 60
    for subkey, value in zip(victims, values, strict=True):
        peer_id = signer(subkey).to_bytes()
        for label, name, place, content in (
            ("a session", "sessions", subkey, value | {"name": "~mallory"}),
            ("progress", "progress", subkey, progress_of(intruder, epoch=3)),
            ("progress under two names", "progress", own.identity.subkey + subkey, progress_of(intruder, epoch=3)),
            ("an offer of the state", "state_averager.all_averagers", peer_id, 1e9),
            ("a search for a group", "grad_averager.0b", peer_id, True),
            ("a record without a subkey", "sessions", None, "mine"),
        ):
            record = sealed(scene, own, name, place, content, soon)
            got += [f"{label}{where}" for where in await _kept(intruder, protocol, record)]
    booked = []
    for value in values:
        for session_id in (uuid.uuid4().hex, value["session_id"]):  # one of our own, then the victim's
            lie = value | {"session_id": session_id, "shown_pass": own.shown, "time": time.time(), "contributions": []}
            record = sealed(scene, own, "sessions", own.identity.subkey, lie, get_dht_time() + 60)
            booked += [await intruder.store(protocol, peer, record) for peer in intruder.targets]
            await asyncio.sleep(3.0)  # until the coordinator has looked
    return {"got": got, "victims": len(victims), "stored": any(booked), "peer_id": str(intruder.identity.peer_id)}


def progress_of(intruder: Intruder, **claims: Any) -> dict[str, Any]:
    """A record of progress, as hivemind writes it."""
    return {
        "peer_id": intruder.identity.peer_id.to_bytes(),
        "epoch": 0,
        "samples_accumulated": 0,
        "samples_per_second": 1.0,
        "time": get_dht_time(),
        "client_mode": False,
    } | claims


async def absurd_progress(scene: Scene) -> dict[str, Any]:
    """One peer far ahead of all others, impossibly fast, or with figures that are none."""
    return await _lie(
        scene,
        "liar",
        [
            {"epoch": ABSURD_STEP},
            {"epoch": 2**63},
            {"samples_per_second": ABSURD_SPEED},
            {"samples_per_second": math.inf},
            {"samples_per_second": math.nan},
            {"samples_per_second": -1.0},
            {"epoch": -1},
            {"epoch": math.nan},
            {"samples_accumulated": -ABSURD_COUNT},
            {"time": math.nan},
        ],
    )


async def two_voices(scene: Scene) -> dict[str, Any]:
    """One peer that speaks under two subkeys, and so seems to be two who agree."""
    return await _lie(scene, "ventriloquist", [{"epoch": 2 * ABSURD_STEP}], endings=(b" 1", b" 2"))


async def absurd_samples(scene: Scene) -> dict[str, Any]:
    """Samples that nobody can have computed, so that rounds would begin on next to nothing."""
    return await _lie(scene, "boaster", [{"samples_accumulated": ABSURD_COUNT}], at_newest_step=True)


async def odd_times(scene: Scene) -> dict[str, Any]:
    """Progress told in the far past, by which others would think that the next step is due at any moment."""
    return await _lie(scene, "old", [{"time": -1e300}, {"time": -math.inf}, {"time": math.inf}], at_newest_step=True)


async def _lie(
    scene: Scene,
    name: str,
    lies: list[dict[str, Any]],
    *,
    endings: tuple[bytes, ...] = (b"",),
    at_newest_step: bool = False,
) -> dict[str, Any]:
    intruder = await Intruder.create(scene, name)
    own = intruder.enter(name)
    protocol = await intruder.dht(own)
    stored = refused = 0
    say({"began": True})
    until, turn, step = time.monotonic() + LIES_LAST, 0, 0
    while time.monotonic() < until:
        if at_newest_step:
            step = await told_step(scene)
        lie = progress_of(intruder, epoch=step) | lies[turn * len(lies) // round(LIES_LAST / LIE_EVERY) % len(lies)]
        for ending in endings:
            key = own.claimed_key + ending  # a comment behind it: for whoever reads it, the same key
            subkey, voice = own.identity.subkey.replace(own.claimed_key, key), replace(own, public_key=key)
            record = sealed(scene, voice, "progress", subkey, lie, get_dht_time() + 30)
            for peer in intruder.targets:
                kept = await intruder.store(protocol, peer, record)
                stored, refused = stored + kept, refused + (not kept)
        turn += 1
        await asyncio.sleep(LIE_EVERY)
    return {"stored": stored, "refused": refused}


async def absurd_step_in_group(scene: Scene) -> dict[str, Any]:
    """Into groups with a real pass and a step that is far ahead, behind, or none, for as long as groups form."""
    intruder = await Intruder.create(scene, "gatherer")
    own, schema = intruder.enter("gatherer"), schema_hash(scene)
    answers: list[str] = []
    say({"began": True})
    until = time.monotonic() + LIES_LAST
    lies: list[tuple[object, int]] = [
        (3 * ABSURD_STEP, 1),
        (3 * ABSURD_STEP, 0),
        (-5, 1),
        (2**60, 0),
        ("step", 1),
        (None, 0),
    ]
    turns = [_follow(intruder, peer, own, schema, lies, answers, until) for peer in intruder.targets]
    await asyncio.gather(*turns)
    return {"answers": {answer: answers.count(answer) for answer in set(answers)}}


async def _follow(
    intruder: Intruder,
    peer: PeerID,
    own: Credentials,
    schema: bytes,
    lies: list[tuple[object, int]],
    answers: list[str],
    until: float,
) -> None:
    turn = 0
    while time.monotonic() < until:
        step, mode = lies[turn % len(lies)]
        stream = await intruder.knock(peer, own.shown, schema, step, mode=mode)
        accepted = False
        with contextlib.suppress(Exception):
            async for message in stream or ():  # type: ignore[union-attr]
                answers.append(averaging_pb2.MessageCode.Name(message.code))
                if message.code != averaging_pb2.ACCEPTED:
                    break
                accepted = True
            await stream.aclose()  # type: ignore[union-attr]
        turn += accepted
        await asyncio.sleep(0.2)


async def odd_records(scene: Scene) -> dict[str, Any]:
    """Records of one's own that are too long for an answer to carry, or that never expire."""
    intruder = await Intruder.create(scene, "hoarder")
    own = intruder.enter("hoarder")
    protocol = await intruder.dht(own)
    long, soon = b"x" * 3_500_000, get_dht_time() + 60
    subkey, peer_id = own.identity.subkey, intruder.identity.peer_id.to_bytes()
    odd: dict[str, Callable[[], DHTRecord]] = {
        "progress without an end": lambda: sealed(scene, own, "progress", subkey, progress_of(intruder), math.nan),
        "a long progress": lambda: sealed(scene, own, "progress", subkey, progress_of(intruder, peer_id=long), soon),
        "a long search for a group": lambda: sealed(scene, own, "grad_averager.0b", peer_id, long, soon),
        "long notices": lambda: sealed(scene, own, "notices", subkey, long, soon),
        "progress for ever": lambda: sealed(scene, own, "progress", subkey, progress_of(intruder), math.inf),
        "progress for a year": lambda: sealed(scene, own, "progress", subkey, progress_of(intruder), soon + 3e7),
    }
    got = [f"{label}{where}" for label, make in odd.items() for where in await _kept(intruder, protocol, make())]
    return {"got": got, "refusals": intruder.refusals}
