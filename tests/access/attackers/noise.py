"""Attacks with messages that are none: random bytes, wrong lengths, megabytes."""

import asyncio
import contextlib
import random
from typing import Any

from hivemind.dht.storage import DictionaryDHTValue
from hivemind.p2p import PeerID
from hivemind.proto import dht_pb2
from hivemind.utils import MSGPackSerializer, get_dht_time

from averaging.log.packing import pack
from averaging.transport.streams import HANDLES
from averaging.transport.wire_format import VERSION, FrameKind, frame
from swarm.access.greeting import Hello
from tests.access.attackers.credentials import Scene, key_of
from tests.access.attackers.intruder import DEEP, Intruder

UNARY = ("PassProtocol.rpc_ping", "PassProtocol.rpc_store", "PassProtocol.rpc_find")
SIZES = (0, 1, 1_000, 300_000, 3_900_000, 9_000_000)  # bytes; libp2p drops calls beyond 4 MiB in silence
PATIENCE = 2.5  # seconds for whatever is answered
FLOOD = 400_000_000  # bytes in a message that never ends
MEGABYTE = 2**20


async def noise(scene: Scene) -> dict[str, Any]:
    """Random and oversized bytes to every handler, then well-formed calls with a real pass and absurd content."""
    intruder = await Intruder.create(scene, "noisy")
    source = random.Random(0)
    sent = await asyncio.gather(*(_bytes(intruder, peer, source) for peer in intruder.targets))
    answered = await _well_formed(intruder, source)
    return {"sent": sum(sent), "answered": answered, "refusals": intruder.refusals[-20:]}


async def _bytes(intruder: Intruder, peer: PeerID, source: random.Random) -> int:
    sent = 0
    for size in SIZES:
        content = source.randbytes(size)
        calls = (lambda one=handler: intruder.p2p._client.call_unary_handler(peer, one, content) for handler in UNARY)  # noqa: B023
        await asyncio.gather(*(intruder.attempt(call, PATIENCE) for call in calls))
        sent += len(UNARY)
    for handler in HANDLES.values():
        contents = _streams(intruder, source)
        await asyncio.gather(*(_pour(intruder, peer, handler, content) for content in contents))
        sent += len(contents)
    return sent


def _streams(intruder: Intruder, source: random.Random) -> list[bytes]:
    """What is written to a stream: a kind, a length of 4 bytes, a body."""
    large = source.randbytes(5_000_000)
    stranger = pack(Hello(VERSION, intruder.scene.fingerprint, b"", f"{intruder.identity.peer_id}.0bad0bad"))
    return [
        b"",
        b"\x00",
        b"\x07" + large[:1000],
        frame(FrameKind.HELLO, large[:1000]),
        frame(FrameKind.HELLO, large),
        frame(FrameKind.HELLO, DEEP),
        frame(FrameKind.HELLO, stranger)[:-1],
        frame(FrameKind.HELLO, stranger) + frame(FrameKind.MESSAGE, large),
        frame(FrameKind.MESSAGE, large),
        frame(FrameKind.RECEIVED, bytes(8)) * 10_000,
        bytes([FrameKind.HELLO]) + b"\xff" * 4 + large[:1000],
        bytes([FrameKind.MESSAGE]) + b"\xff" * 4 + large,
    ]


async def _pour(intruder: Intruder, peer: PeerID, handler: str, content: bytes) -> None:
    """Write it and wait a moment for an answer."""

    async def talk() -> None:
        _, reader, writer = await intruder.p2p.call_binary_stream_handler(peer, handler)
        with contextlib.closing(writer):
            writer.write(content)
            await writer.drain()
            await asyncio.wait_for(reader.read(65536), 0.3)

    await intruder.attempt(talk, PATIENCE)


async def _well_formed(intruder: Intruder, source: random.Random) -> int:
    """Calls that a real pass opens, with content that fits nothing; returns how many were answered."""
    own = intruder.enter("noisy")
    protocol = await intruder.dht(own)
    key, soon = key_of(intruder.scene, "contacts"), get_dht_time() + 30
    broken = DictionaryDHTValue()
    broken.store(b"x", source.randbytes(1000), soon)
    calls: list[tuple[str, Any]] = [
        ("rpc_ping", dht_pb2.PingRequest(peer=dht_pb2.NodeInfo(node_id=b"short"), validate=True)),
        ("rpc_ping", dht_pb2.PingRequest(peer=dht_pb2.NodeInfo(node_id=source.randbytes(3_000_000)))),
        ("rpc_find", dht_pb2.FindRequest(keys=[b"", b"short", source.randbytes(3_000_000)])),
        ("rpc_find", dht_pb2.FindRequest(keys=[key] * 100_000)),
        ("rpc_store", dht_pb2.StoreRequest(keys=[key], subkeys=[b"x", b"y"])),
        *(
            (
                "rpc_store",
                dht_pb2.StoreRequest(
                    keys=[key], subkeys=[subkey], values=[value], expiration_time=[soon], in_cache=[False]
                ),
            )
            for subkey in (b"", b"\xc0", b"\xff", b"\xc7\x04\x50abcd", source.randbytes(300))
            for value in (
                b"",
                source.randbytes(1000),
                b"\xdd\xff\xff\xff\xff",
                b"\x91" * 100_000,
                MSGPackSerializer.dumps(broken),
                b"[author:" * 100_000,
                DEEP,
            )
        ),
    ]

    async def all_to_one(peer: PeerID) -> int:
        answered, stub = 0, protocol.get_stub(peer)
        for method, request in calls:
            copy = type(request)()
            copy.CopyFrom(request)
            answered += await intruder.attempt(lambda: getattr(stub, method)(copy), PATIENCE) is not None  # noqa: B023
        return answered

    return sum(await asyncio.gather(*map(all_to_one, intruder.targets)))


async def endless(scene: Scene) -> dict[str, Any]:
    """A frame that goes on and on, from a peer without a pass."""
    intruder = await Intruder.create(scene, "endless")
    poured = 0

    async def pour() -> None:
        nonlocal poured
        peer, chunk = intruder.targets[0], bytes(MEGABYTE)
        _, _, writer = await intruder.p2p.call_binary_stream_handler(peer, next(iter(HANDLES.values())))
        with contextlib.closing(writer):
            writer.write(bytes([FrameKind.MESSAGE]) + b"\xff" * 4)
            while poured < FLOOD:
                writer.write(chunk)
                await writer.drain()
                poured += len(chunk)
            await asyncio.sleep(3.0)  # until it has been measured

    await intruder.attempt(pour, 30.0)
    return {"poured": poured, "refusals": intruder.refusals}
