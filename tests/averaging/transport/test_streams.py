"""Streams over real libp2p: who is reached, over which stream, and how much of one peer there is in memory."""

import asyncio
import struct
from itertools import pairwise
from pathlib import Path

import pytest

from averaging.bandwidth import Caps, OwnLine
from averaging.log.header import Ballot
from averaging.log.packing import pack as encode
from averaging.protocol.messages import Piece, Report
from averaging.transport.limits import Limits
from averaging.transport.wire_format import FrameKind, Lane, frame, pack
from tests.averaging.transport.peers import QUICK, Peers, chunk_of, framed
from tests.support.waiting import wait_until

pytestmark = pytest.mark.swarm
PAYLOAD = bytes(range(256)) * 1024  # 256 KiB
BOTH = ["bulk", "control"]


def test_both_lanes_carry_messages_both_ways_over_the_streams_of_one_side(peers: Peers):
    amina, bimal = peers.start(), peers.start()
    amina.tells(bimal)
    amina.tells(bimal, chunk_of(PAYLOAD), PAYLOAD)
    assert bimal.inbox[-1] == (amina.session, chunk_of(PAYLOAD), PAYLOAD)
    assert bimal.streams(amina) == BOTH
    bimal.tells(amina)
    bimal.tells(amina, Piece(Ballot(1, bimal.session), 3, 0), PAYLOAD)
    assert amina.inbox[-1][2] == PAYLOAD
    assert bimal.streams(amina) == BOTH


def test_both_sides_say_at_which_address_they_see_the_other(peers: Peers):
    amina, bimal = peers.start(), peers.start()
    amina.tells(bimal)
    wait_until(lambda: amina.transport.seen.keys() == {bimal.session}, "what bimal says")
    for seen in (amina.transport.seen[bimal.session], bimal.transport.seen[amina.session]):
        assert seen.startswith("/ip4/127.0.0.1/tcp/")


def test_a_peer_in_client_mode_is_reached_over_the_connection_that_it_has_opened(peers: Peers):
    amina, client, other = peers.start(), peers.client(), peers.start()
    other.send(client, other.vote)
    wait_until(lambda: not other.waits_for(client.session), "the end of the first try")
    assert not client.inbox and not other.streams(client)
    client.tells(amina)  # in one lane
    amina.tells(client)
    amina.tells(client, chunk_of(PAYLOAD), PAYLOAD)  # in the other one, which it opens itself
    assert amina.streams(client) == BOTH
    client.tells(other)  # which makes a connection
    other.tells(client, chunk_of(PAYLOAD), PAYLOAD)
    assert other.streams(client) == BOTH


def test_a_peer_whose_process_was_killed_is_reached_again_as_another_session(peers: Peers, tmp_path: Path):
    amina, bimal = peers.start(), peers.start(p2p=peers.daemon(tmp_path / "identity"))
    bimal.tells(amina)
    amina.tells(bimal)
    assert bimal.p2p._child is not None
    bimal.p2p._child.kill()
    wait_until(lambda: not amina.streams(bimal), "end of the streams to the killed peer")
    amina.send(bimal, amina.vote)
    again = peers.start(p2p=peers.daemon(tmp_path / "identity"))
    assert again.id == bimal.id
    amina.tells(again)
    again.tells(amina)
    wait_until(lambda: set(amina.transport.received) == {again.session}, "end of the old session")


def test_a_connection_that_broke_is_made_again(peers: Peers):
    amina, bimal = peers.start(), peers.start()
    amina.tells(bimal)
    amina.loop.call(amina.p2p._client.disconnect(bimal.p2p.peer_id))
    wait_until(lambda: not amina.streams(bimal), "end of the streams")
    bimal.inbox.clear()
    amina.tells(bimal)


def test_a_peer_goes_on_as_another_session_over_the_same_daemon(peers: Peers):
    amina, bimal = peers.start(), peers.start()
    bimal.tells(amina)
    bimal.loop.call(bimal.transport.stop())
    again = peers.start(p2p=bimal.p2p)
    again.tells(amina)
    amina.tells(again)
    amina.send(bimal, Report(None, 1))  # to the session that is over
    wait_until(lambda: not amina.waits_for(bimal.session), "end of the message to the old session")
    amina.tells(again, Report(None, 2))
    assert Report(None, 1) not in [message for _, message, _ in again.inbox]


def test_a_newer_session_of_a_peer_ends_the_streams_of_the_older_one(peers: Peers):
    host, other = peers.start(), peers.intruder()
    reader, first = peers.loop.call(other.greeted(host))
    wait_until(lambda: other.session in host.transport.received, "the first session")
    newer = other.session[:-8] + "00000002"
    _, writer = peers.loop.call(other.greeted(host, session=newer))
    assert peers.loop.call(reader.read(), timeout=200) == b""
    wait_until(lambda: set(host.transport.received) == {newer}, "the second session alone")
    for one in (first, writer):  # asyncio closes those that nobody refers to
        peers.loop.soon(one.close)


def test_what_was_sent_before_the_end_has_been_taken_in(peers: Peers):
    amina, bimal = peers.start(line=OwnLine(Caps(download=16.0))), peers.start()
    bimal.tells(amina)
    pieces = [Piece(Ballot(1, bimal.session), number, 0) for number in range(20)]  # more than two seconds
    for piece in pieces:
        bimal.send(amina, piece, PAYLOAD)
    assert not bimal.loop.call(bimal.transport.flush(0.3))
    bimal.send(amina, Report(None, 1))
    assert bimal.loop.call(bimal.transport.flush(200.0))
    bimal.loop.call(bimal.transport.stop())
    assert Report(None, 1) in [message for _, message, _ in amina.inbox]
    assert [message for _, message, _ in amina.inbox if isinstance(message, Piece)] == pieces


def test_streams_of_silent_peers_are_closed(peers: Peers):
    limits = Limits(tend=0.05, idle=0.2)
    amina, bimal = peers.start(limits), peers.start()
    bimal.tells(amina)
    wait_until(lambda: not amina.transport._remotes, "end of the idle streams")
    bimal.inbox.clear()
    amina.tells(bimal)


def test_nobody_waits_for_a_peer_that_sends_ten_thousand_messages(peers: Peers):
    host, amina = peers.start(line=OwnLine(Caps(download=0.1))), peers.start()  # it takes them in for three minutes
    flooder = peers.intruder()

    async def flood() -> asyncio.StreamWriter:
        _, writer = await flooder.greeted(host)
        for _ in range(10_000):
            writer.write(framed(pack(encode(amina.vote))))
        return writer

    writer = peers.loop.call(flood())

    def of_the_flooder() -> int:
        return sum(session == flooder.session for session, _, _ in host.inbox)

    wait_until(of_the_flooder, "first message of the flood")
    amina.tells(host)
    assert of_the_flooder() < 10_000  # the others wait on their way
    (stream,) = host.transport._remotes[flooder.session].streams
    # The flood has 2 MB; asyncio stops to read at twice its limit of 64 KiB, and uvloop reads up to 256 KB at once.
    assert len(stream._reader._buffer) <= 2**19  # type: ignore[attr-defined]
    peers.loop.soon(writer.close)


@pytest.mark.parametrize("is_inside", [False, True], ids=["messages", "frames inside a message"])
def test_others_have_their_turn_after_each_message_and_frame_of_a_flood(peers: Peers, is_inside: bool):
    host, flooder = peers.start(), peers.intruder()
    turns, hellos = [0], list[bytes]()

    async def flood() -> asyncio.StreamWriter:
        _, writer = await flooder.greeted(host)
        if is_inside:
            writer.write(struct.pack(">BI", FrameKind.MESSAGE, 100) + frame(FrameKind.HELLO) * 2000)
        else:
            writer.write(framed(pack(encode(host.vote))) * 2000)
        (stream,) = host.transport._remotes[flooder.session].streams
        stream._renewed = hellos.append

        def turn() -> None:
            turns.append(len(hellos if is_inside else host.inbox))
            if turns[-1] < 2000:
                asyncio.get_running_loop().call_soon(turn)

        turn()
        return writer

    writer = peers.loop.call(flood())
    wait_until(lambda: turns[-1] == 2000, "the whole flood")
    assert max(later - before for before, later in pairwise(turns)) <= 2
    peers.loop.soon(writer.close)


def test_a_peer_that_never_reads_takes_up_no_more_than_its_queues(peers: Peers):
    limits = Limits(tend=0.05, bulk_queue=2**11, control_queue=2**16)
    host, amina = peers.start(limits), peers.start()
    deaf = peers.intruder()
    writers = [peers.loop.call(deaf.greeted(host, lane))[1] for lane in Lane]
    wait_until(lambda: len(host.transport._remotes[deaf.session].streams) == 2, "both streams")
    remote, has_room = host.transport._remotes[deaf.session], list[bool]()
    put = remote.outboxes[Lane.BULK].put
    remote.outboxes[Lane.BULK].put = lambda *sent: has_room.append(put(*sent)) or has_room[-1]  # type: ignore
    for number in range(400):  # 100 MiB
        host.send(deaf.session, Piece(Ballot(1, host.session), number, 0), PAYLOAD)
    for _ in range(20_000):
        host.loop.soon(host.transport.send, deaf.session, host.vote)
    host.tells(amina)  # while the other one reads nothing
    assert has_room.count(False) > 350
    assert remote.outboxes[Lane.BULK].size <= limits.bulk_queue
    assert remote.outboxes[Lane.CONTROL].size <= limits.control_queue
    for stream in remote.streams:
        assert stream.lane is Lane.CONTROL or stream.window.in_flight <= stream.window.size + len(PAYLOAD) + 1024
        assert stream._writer.transport.get_write_buffer_size() <= len(PAYLOAD) + 2**17
    assert len(host.transport._tasks) < 20
    for writer in writers:
        peers.loop.soon(writer.close)


@pytest.mark.parametrize(
    ("sent", "slowest"),
    [(framed(b"x" * 1000)[:-1], 2**30), (struct.pack(">BI", FrameKind.MESSAGE, 2**20), 1)],
    ids=["almost all", "the head alone"],
)
def test_a_stream_that_stands_still_is_given_up(peers: Peers, sent: bytes, slowest: int):
    amina = peers.start(Limits(tend=0.05, stall=0.2, slowest=slowest))
    slow = peers.intruder()
    reader, writer = peers.loop.call(slow.greeted(amina))
    peers.loop.soon(writer.write, sent)
    assert peers.loop.call(reader.read(), timeout=200) == b""
    assert QUICK.stall > 1
    peers.loop.soon(writer.close)
