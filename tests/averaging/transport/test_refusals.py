"""Peers that are not heard: over real libp2p, each with a true peer id and a false word."""

import asyncio
import struct
from pathlib import Path
from typing import Any

import pytest
from hivemind.p2p import PeerID

from averaging.log.packing import pack as encode
from averaging.protocol.messages import Report
from averaging.transport.limits import Limits
from averaging.transport.stream import AT_ONCE
from averaging.transport.wire_format import (
    VERSION,
    FrameKind,
    Lane,
    acknowledgement,
    frame,
    pack,
    read_hello,
)
from swarm.access.greeting import LONGEST_HELLO, Hello
from swarm.access.refusals import MOST_REFUSALS
from tests.averaging.transport.peers import RUN, Guarded, Intruder, Peer, Peers, chunk_of, framed
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.swarm


def is_refused(intruder: Intruder, at: Peer, lane: Lane = Lane.CONTROL, **hello: Any) -> bool:
    async def attempt() -> bool:
        try:
            _, writer = await intruder.greeted(at, lane, **hello)
        except (EOFError, OSError):
            return True
        writer.close()
        return False

    return intruder.loop.call(attempt())


def answer(intruder: Intruder, at: Peer, sent: bytes, lane: Lane = Lane.CONTROL, greets: bool = True) -> bytes:
    """What comes back until the other side closes the stream."""

    async def attempt() -> bytes:
        reader, writer = await (intruder.greeted(at, lane) if greets else intruder.opened(at, lane))
        writer.write(sent)
        try:
            return await reader.read()
        except OSError:
            return b""
        finally:
            writer.close()

    return intruder.loop.call(attempt(), timeout=200)


def test_a_hello_that_is_not_true_is_refused(peers: Peers):
    host, amina = peers.start(), peers.start()
    intruder = peers.intruder()
    assert not is_refused(intruder, host)
    for lane in Lane:
        assert is_refused(intruder, host, lane, session=amina.session)
        assert is_refused(intruder, host, lane, session=f"{amina.id}.00000000")
        assert is_refused(intruder, host, lane, session=host.session)
        assert is_refused(intruder, host, lane, session=intruder.session + "0")
        assert is_refused(intruder, host, lane, run="another")
        assert is_refused(intruder, host, lane, version=VERSION + 1)
    assert host.transport.refused == 12
    assert amina.session not in host.transport._remotes
    amina.tells(host)


NO_HELLOS = {
    "message": framed(b"before the hello"),
    "4 GiB": struct.pack(">BI", FrameKind.HELLO, 2**32 - 1),
    "long": frame(FrameKind.HELLO, b"x" * (LONGEST_HELLO + 1)),
    "malformed": frame(FrameKind.HELLO, b"\x93\x01\x02\x03"),
    "huge list": frame(FrameKind.HELLO, b"\xdd\xff\xff\xff\xff"),
    "deep lists": frame(FrameKind.HELLO, b"\x95\x01\xa0\xa0\xc4\x00" + b"\x91" * 2000),
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
}


def test_a_stream_that_does_not_begin_with_a_hello_is_closed(peers: Peers):
    host, stranger = peers.start(Limits(hello=3600.0)), peers.intruder()
    for count, sent in enumerate(NO_HELLOS.values(), 1):
        assert answer(stranger, host, sent, greets=False) == b""
        assert host.transport.refused == count


def test_a_stranger_that_says_nothing_is_not_waited_for(peers: Peers):
    host = peers.start(Limits(hello=0.2))
    assert answer(peers.intruder(), host, b"\0", greets=False) == b""
    assert not host.transport._strangers.peers


def test_silent_streams_keep_no_newcomer_out(peers: Peers):
    host, eve, mallory = peers.start(Limits(strangers=2, hello=3600.0)), peers.intruder(), peers.intruder()
    opened, expected = [], list[PeerID]()
    for intruder in (eve, mallory, eve, mallory):
        opened.append(peers.loop.call(intruder.opened(host)))
        opened[-1][1].write(b"\0")
        expected[:] = [*expected, intruder.p2p.peer_id][-2:]
        wait_until(lambda: list(host.transport._strangers.peers.values()) == expected, "the end of the oldest stream")
    peers.start().tells(host)
    assert list(host.transport._strangers.peers.values()) == expected[1:]
    assert host.transport.refused == 0
    for _, writer in opened:
        peers.loop.soon(writer.close)


FALSE_FRAMES = {
    "4 GiB": (Lane.CONTROL, struct.pack(">BI", FrameKind.MESSAGE, 2**32 - 1)),
    "4 GiB of bulk": (Lane.BULK, struct.pack(">BI", FrameKind.MESSAGE, 2**32 - 1)),
    "acknowledgement of 1 MiB": (Lane.CONTROL, struct.pack(">BI", FrameKind.RECEIVED, 2**20)),
    "noise": (Lane.CONTROL, framed(b"\0\0\0\0")),
    "bulk as control": (Lane.CONTROL, framed(pack(encode(chunk_of(b"x")), b"x"))),
    "control as bulk": (Lane.BULK, framed(pack(encode(Report(None, 1))))),
    "acknowledgement of nothing": (Lane.BULK, acknowledgement(1.0)),
    "acknowledgement without a time": (Lane.BULK, frame(FrameKind.RECEIVED)),
    "slice of nothing": (Lane.BULK, frame(FrameKind.SLICE, b"x")),
    "slice beyond the message": (
        Lane.CONTROL,
        struct.pack(">BI", FrameKind.MESSAGE, 2) + frame(FrameKind.SLICE, b"xxx"),
    ),
    "slice without bytes": (Lane.CONTROL, struct.pack(">BI", FrameKind.MESSAGE, 2) + frame(FrameKind.SLICE)),
    "many small slices": (
        Lane.BULK,
        struct.pack(">BI", FrameKind.MESSAGE, 2**21) + frame(FrameKind.SLICE, b"x") * 2,
    ),
    "message in a message": (Lane.CONTROL, struct.pack(">BIBI", FrameKind.MESSAGE, 2, FrameKind.MESSAGE, 2)),
    "no kind": (Lane.CONTROL, b"\xff\0\0\0\0"),
}


def test_a_frame_that_no_honest_peer_sends_costs_the_stream(peers: Peers):
    host, intruder = peers.start(), peers.intruder()
    for count, (lane, sent) in enumerate(FALSE_FRAMES.values(), 1):
        assert answer(intruder, host, sent, lane) == b""
        assert host.transport.refused == count and not host.inbox


def test_a_chunk_with_another_digest_costs_the_stream_and_who_goes_on_is_shut_out(peers: Peers):
    host, amina = peers.start(), peers.start()
    liar = peers.intruder()
    right = framed(pack(encode(chunk_of(b"one")), b"one"))
    for count in range(1, MOST_REFUSALS + 1):
        payload = b"another" if count % 2 else bytes(AT_ONCE)
        answer(liar, host, right + framed(pack(encode(chunk_of(b"one")), payload)) + right, Lane.BULK)
        assert host.inbox == [(liar.session, chunk_of(b"one"), b"one")] * count
        assert host.transport.refused == count
    assert is_refused(liar, host)
    amina.tells(host)


def test_a_peer_has_a_few_streams_only(peers: Peers):
    host, amina = peers.start(Limits(streams_of_a_peer=3)), peers.start()
    greedy = peers.intruder()
    opened = [peers.loop.call(greedy.greeted(host)) for _ in range(3)]
    assert is_refused(greedy, host)
    amina.tells(host)
    for _, writer in opened:
        peers.loop.soon(writer.close)


def test_it_has_no_more_if_all_of_them_say_hello_at_once(peers: Peers):
    host, greedy = peers.start(Limits(streams_of_a_peer=3)), peers.intruder()

    async def greetings() -> list[bool]:
        opened = [await greedy.opened(host) for _ in range(8)]
        while len(host.transport._strangers.peers) < 3:
            await asyncio.sleep(0.01)
        hello = Hello(VERSION, RUN, greedy.shown, greedy.session)
        for _, writer in opened:
            writer.write(frame(FrameKind.HELLO, encode(hello)))
        answers = await asyncio.gather(*(read_hello(reader, PATIENCE) for reader, _ in opened), return_exceptions=True)
        for _, writer in opened:
            writer.close()
        return [isinstance(one, Hello) for one in answers]

    assert sum(peers.loop.call(greetings())) == 3


def test_a_peer_for_which_there_is_no_room_is_not_to_blame(peers: Peers):
    host, first, second = peers.start(Limits(streams=1)), peers.intruder(), peers.intruder()
    _, writer = peers.loop.call(first.greeted(host))
    assert is_refused(second, host)
    assert host.transport.refused == 0
    peers.loop.soon(writer.close)


def test_only_peers_with_a_pass_are_heard_and_none_after_its_ban(peers: Peers, tmp_path: Path):
    guarded = Guarded(tmp_path)
    daemons = [peers.daemon() for _ in range(3)]
    amina, bimal = (
        peers.start(p2p=daemon, gate=guarded.gate(name, daemon.peer_id))
        for name, daemon in zip(("amina", "bimal"), daemons[:2], strict=True)
    )
    stranger = Intruder(peers.loop, daemons[2])
    theirs = guarded.gate("chandra", daemons[2].peer_id, lifetime=0.0)
    assert is_refused(stranger, amina)
    assert is_refused(stranger, amina, shown=b"x" * 100)
    assert is_refused(stranger, amina, shown=bimal.gate.own.to_bytes())
    assert is_refused(stranger, amina, shown=theirs.own.to_bytes())
    amina.tells(bimal)
    bimal.tells(amina)
    guarded.ban("bimal")
    wait_until(lambda: not amina.transport.received, "end of the banned peer's streams")
    count = len(amina.inbox)
    refused = amina.transport.refused

    def is_refused_again() -> bool:
        bimal.send(amina, bimal.vote)  # again and again: the first may go into a stream that is just being closed
        return amina.transport.refused > refused

    wait_until(is_refused_again, "another refusal", every=0.2)
    assert len(amina.inbox) == count


def test_a_renewed_pass_is_shown_on_the_streams_that_there_are(peers: Peers, tmp_path: Path):
    guarded = Guarded(tmp_path)
    daemons = [peers.daemon(), peers.daemon()]
    amina, bimal = (
        peers.start(p2p=daemon, gate=guarded.gate(name, daemon.peer_id))
        for name, daemon in zip(("amina", "bimal"), daemons, strict=True)
    )
    amina.tells(bimal)
    renewed = guarded.authority.issue("guarded-run", "amina", daemons[0].peer_id, 7200.0)
    amina.gate.renew(renewed)
    before = bimal.streams(amina)
    wait_until(lambda: bimal.transport._remotes[amina.session].shown == renewed.to_bytes(), "the renewed pass")
    assert bimal.streams(amina) == before


def test_a_peer_that_answers_with_a_false_hello_is_not_told_anything(peers: Peers):
    amina = peers.start()
    daemon = peers.daemon()
    heard: list[bytes] = []

    async def pretend(_: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(2000))
        writer.write(frame(FrameKind.HELLO, b"\x94\x02\xa8" + amina.run.encode() + b"\xa1x\xc4\x00"))
        heard.append(await reader.read())
        writer.close()

    peers.loop.call(daemon.add_binary_stream_handler("sahaj.control", pretend))
    pretender = f"{daemon.peer_id.to_base58()}.00000001"
    amina.send(pretender, amina.vote)
    wait_until(lambda: len(heard) == 2, "end of the stream")
    assert heard[1] == b"" and not amina.waits_for(pretender)
