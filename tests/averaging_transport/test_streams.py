"""Streams over real libp2p: who is heard, over which stream, and how much of one peer."""

import pytest

from averaging.log.header import Ballot
from averaging.protocol.messages import Piece
from tests.averaging_transport.peers import Peers, chunk_of

pytestmark = pytest.mark.swarm
PAYLOAD = bytes(range(256)) * 1024


def test_both_lanes_carry_messages_both_ways_over_the_streams_of_one_side(peers: Peers):
    amina, bimal = peers.start(), peers.start()
    amina.tells(bimal)
    amina.tells(bimal, chunk_of(PAYLOAD), PAYLOAD)
    assert bimal.inbox[-1] == (amina.session, chunk_of(PAYLOAD), PAYLOAD)
    assert set(bimal.streams(amina)) == {("control", False), ("bulk", False)}
    bimal.tells(amina)
    bimal.tells(amina, Piece(Ballot(1, bimal.session), 3, 0), lambda: PAYLOAD)
    assert amina.inbox[-1][2] == PAYLOAD
    assert set(bimal.streams(amina)) == {("control", False), ("bulk", False)}
