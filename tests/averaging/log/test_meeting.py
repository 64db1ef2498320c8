"""What a call may bring: a peer that says to have more than it can have is there, and counts with nothing."""

import pytest

from averaging.protocol.contacts import Contacts
from averaging.protocol.messages import Call, Contact, Offer
from averaging.protocol.peer import Peer
from averaging.protocol.rounds.meeting import Meeting, Situation
from averaging.protocol.session import Session
from averaging.protocol.settings import Settings
from tests.averaging.log.headers import FIRST, chain_of

SETTINGS = Settings("run", target_samples=10, chunks=1, snapshot_every=5, most_masked=3)
ME = Contact("me.0", "me", reachable=True)
(ENTRY,) = chain_of(1, voters=("eve.0",))


def meeting() -> Meeting:
    situation = Situation(
        session=Session(ME, SETTINGS),
        contacts=Contacts(ME),
        listed={},
        objection=lambda header: "",
        ballot=FIRST,
        previous=ENTRY.header,
        recent=[ENTRY.header],
        awaited=frozenset(),
    )
    return Meeting(situation)


def brought(*offers: tuple[int, int]) -> tuple[int, int]:
    """Samples and weight with which a call counts, given those of its buffers."""
    found = meeting()
    buffers = tuple(Offer(number, weight, samples, None) for number, (samples, weight) in enumerate(offers))
    found.called("eve.0", Call(ENTRY.header.digest, FIRST, buffers, None))
    assert found.has_promises  # it is a voter's promise, whatever it offers
    (eve,) = found.members
    assert bool(eve.buffers) == bool(eve.weight)
    return eve.samples, eve.weight


def test_a_call_counts_with_what_it_offers_up_to_four_target_batches() -> None:
    assert brought((40, 120)) == (40, 120)
    assert brought((20, 60), (20, 60)) == (40, 120)
    assert brought((1, 1)) == (1, 1)
    assert brought() == (0, 0)


@pytest.mark.parametrize(
    "offers", [[(41, 1)], [(20, 1), (21, 1)], [(10, 31)], [(10, 0)], [(-1, 1)], [(20, 9), (9, -8)]]
)
def test_a_call_that_offers_more_than_a_peer_can_have_counts_with_nothing(offers: list[tuple[int, int]]) -> None:
    assert brought(*offers) == (0, 0)


def test_a_peer_gathers_no_more_than_it_may_bring() -> None:
    peer = Peer(ME, SETTINGS, 0.0)
    for samples in (30, 11, 10, 1):
        peer.computed(samples, 1.0, samples=samples)
    assert peer.buffers.samples == SETTINGS.most_samples
