"""Of whom a peer tells what it saw, so that of everybody some do."""

from collections import Counter

from hivemind.p2p import PeerID

from swarm.records import MOST_SIGHTINGS
from trainer.session import next_of

PEERS = [PeerID(b"\x12\x20" + bytes(31) + bytes([number])) for number in range(10)]


def test_in_a_large_group_everybody_is_told_of_by_as_many_others() -> None:
    told = Counter(other for own in PEERS for other in next_of(own, PEERS))
    assert set(told.values()) == {MOST_SIGHTINGS}
    assert set(told) == set(PEERS)


def test_in_a_small_one_each_tells_of_all_others_and_nobody_of_himself() -> None:
    for own in PEERS[:3]:
        assert sorted(next_of(own, PEERS[:3])) == [one for one in PEERS[:3] if one != own]
    assert next_of(PEERS[0], PEERS[:1]) == []
