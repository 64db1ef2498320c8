"""Peers whose volunteers cap their lines, and what windows tell of those without caps. No test needs a fast machine."""

import time

import pytest

from averaging.bandwidth import BURST, MEGABIT, Caps, OwnLine
from averaging.log.header import Ballot
from averaging.protocol.messages import Piece
from averaging.transport.wire_format import SLICE
from tests.averaging.transport.peers import Peer, Peers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.swarm
PAYLOAD = bytes(range(256)) * 1024  # 256 KiB
CAP = 16.0  # Mbit/s


def send_pieces(sender: Peer, to: Peer, count: int) -> None:
    for number in range(count):
        sender.send(to, Piece(Ballot(1, sender.session), number, 0), PAYLOAD)


def came(peer: Peer, sender: Peer) -> int:
    """Pieces, which must be whole."""
    payloads = [payload for session, one, payload in peer.inbox if session == sender.session and isinstance(one, Piece)]
    assert all(payload == PAYLOAD for payload in payloads)
    return len(payloads)


def at_least(count: int) -> float:
    """Seconds for so many pieces within the cap."""
    return (count * len(PAYLOAD) - SLICE) / (CAP * MEGABIT) - BURST


def test_an_upload_to_several_peers_is_no_faster_than_its_cap(peers: Peers):
    capped = peers.start(line=OwnLine(Caps(upload=CAP)))
    others = [peers.start(), peers.start()]
    began = time.monotonic()
    for other in others:
        send_pieces(capped, other, 8)
        send_pieces(other, capped, 20)  # so that there is something to acknowledge in the middle of a piece
    wait_until(lambda: all(came(other, capped) == 8 for other in others), "pieces of the capped peer")
    assert time.monotonic() - began >= at_least(16)
    wait_until(lambda: all(came(capped, other) == 20 for other in others), "pieces of the others")
    assert capped.transport.refused == 0 and all(other.transport.refused == 0 for other in others)


def test_a_download_from_several_peers_is_no_faster_than_its_cap(peers: Peers):
    capped = peers.start(line=OwnLine(Caps(download=CAP)))
    others = [peers.start(), peers.start()]
    began = time.monotonic()
    for other in others:
        send_pieces(other, capped, 8)
    wait_until(lambda: all(came(capped, other) == 8 for other in others), "pieces of the others")
    assert time.monotonic() - began >= at_least(16)


def test_what_is_small_does_not_wait_for_the_cap(peers: Peers):
    capped, other = peers.start(line=OwnLine(Caps(1.0, 1.0))), peers.start()
    for one, to in ((capped, other), (other, capped)):
        send_pieces(one, to, 100)  # three minutes
    wait_until(lambda: came(other, capped) and came(capped, other), "the first pieces")
    capped.tells(other)
    other.tells(capped)
    assert came(other, capped) < 100 and came(capped, other) < 100


def test_a_peer_that_sends_much_learns_what_its_line_carries_and_the_other_side_too(peers: Peers):
    amina, bimal = peers.start(), peers.start()
    assert amina.line.bandwidth() is None
    amina.tells(bimal)
    assert amina.line.bandwidth() is None

    def is_known() -> bool:
        send_pieces(amina, bimal, 8)
        return amina.line.bandwidth() is not None

    wait_until(is_known, "the upload")
    wait_until(lambda: bimal.line.download.meter.speed, "the download")
    assert bimal.line.upload.meter.speed is None
