"""Who is asked to call, and what a call may bring: of more than a peer can have nothing counts."""

import math

import pytest
from msgspec.structs import replace

from averaging.log.chain import Chain
from averaging.log.header import Ballot, SnapshotName
from averaging.log.packing import pack
from averaging.protocol.actions import Send
from averaging.protocol.contacts import Contacts
from averaging.protocol.messages import Assignment, Bandwidth, Call, Contact, Meet, Offer, Plan, Reduced, Report
from averaging.protocol.peer import LogPeer
from averaging.protocol.rounds.meeting import Meeting, Situation, averaged, member_of
from averaging.protocol.rounds.reliability import Patience
from averaging.protocol.session import Session
from averaging.protocol.settings import Settings
from tests.averaging.believing import Believing
from tests.averaging.log.headers import FIRST, chain_of, member

SETTINGS = Settings("run", target_samples=10, chunks=1, snapshot_every=5, most_masked=3)
ME = Contact("me.0", "me", reachable=True)
(ENTRY,) = chain_of(1, voters=("eve.0",))


def meeting(awaited: str = "", doubtful: str = "") -> Meeting:
    situation = Situation(
        session=Session(ME, SETTINGS, Believing()),
        contacts=Contacts(ME, Believing()),
        ballot=FIRST,
        previous=ENTRY.header,
        recent=[ENTRY.header],
        patience=Patience(),
        awaited=frozenset(awaited.split()),
        doubtful=frozenset(doubtful.split()),
    )
    return Meeting(situation, lambda header: "")


def brought(*offers: tuple[int, int]) -> tuple[int, int]:
    """Samples and weight with which a call counts, given those of its buffers."""
    found = meeting()
    buffers = tuple(Offer(number, weight, samples, None) for number, (samples, weight) in enumerate(offers))
    found.called("eve.0", Call(ENTRY.header.digest, FIRST, buffers, None))
    assert found.has_promises  # it is a voter's promise, whatever it offers
    (eve,) = found.members
    assert bool(eve.buffers) == bool(eve.weight)
    return eve.samples, eve.weight


@pytest.mark.parametrize("figure", [5e-324, 1e-20, 1e300, -1.0])
def test_figures_with_which_no_plan_can_reckon_are_not_known(figure: float) -> None:
    found = meeting()
    found.called("eve.0", Call("", FIRST, (), None, bandwidth=Bandwidth(figure, 30.0), speed=figure))
    assert found.calls["eve.0"].bandwidth == Bandwidth(0.0, 30.0) and found.calls["eve.0"].speed == 0.0


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
    peer = LogPeer(ME, SETTINGS, Believing(), 0.0)
    for samples in (30, 11, 10, 1):
        peer.computed(samples, 1.0, samples=samples)
    assert peer.buffers.samples == SETTINGS.most_samples


def test_a_voter_that_is_listed_while_the_meeting_is_open_is_asked() -> None:
    """A coordinator that was restarted knows only some of its voters when the first of them have the batch."""
    coordinator = Contact("coordinator.1", "coordinator", reachable=True, is_coordinator=True)
    ann, bela = (Contact(f"{name}.0", name, reachable=True) for name in ("ann", "bela"))
    machine = LogPeer(coordinator, SETTINGS, Believing(), 0.0, held=("first",))
    entries = chain_of(3, voters=("ann.0", "bela.0"), tie_breaker="coordinator.0")
    machine.start(Chain(entries), [SnapshotName(0, "first")])

    def asked() -> list[str]:
        return [one.to for one in machine.take_actions() if isinstance(one, Send) and isinstance(one.message, Meet)]

    def calls(contact: Contact, now: float) -> None:
        offers = (Offer(0, weight=10, samples=10, loss=None),)
        machine.receive(contact.session, Call(machine.log.tip.digest, Ballot(1, machine.me.session), offers, None), now)

    machine.contacts([ann], 0.0)
    machine.receive("ann.0", Report(machine.head, 10), 0.5)
    assert asked() == ["ann.0"]
    calls(ann, 0.6)
    machine.contacts([ann, bela], 5.0)
    assert asked() == ["bela.0"]
    calls(bela, 5.1)
    plans = [one for one in machine.take_actions() if isinstance(one, Send) and isinstance(one.message, Plan)]
    assert {one.to for one in plans} == {"ann.0", "bela.0"}


def test_a_reducer_that_calls_a_sender_loud_and_missing_blocks_no_round() -> None:
    """It is a member without gradients then, of whom nothing can be loud."""
    members = [member("ann.0"), member("eve.0")]
    result = Reduced(FIRST, Assignment(0, 1, "eve.0", 0), ("mean",), 2 * (("eve.0", 0),), (("eve.0", 5.0),))
    kept, (part,), exclusions = averaged(members, [result])
    assert not kept[1].buffers and part.loud == () and exclusions == ()


def test_a_reducer_that_misses_nearly_everything_makes_no_long_header() -> None:
    """Newcomers are sent many headers at a time."""
    sessions, chunks = [f"{number:052}.0" for number in range(40)], 140
    lies = tuple((one, chunk) for chunk in range(1, chunks) for one in sessions)
    result = Reduced(FIRST, Assignment(0, chunks, sessions[0], 0), ("mean",) * chunks, lies)
    *_, exclusions = averaged([member(one) for one in sessions], [result])
    assert len(pack(exclusions)) < 16 * 1024


def test_a_reducer_that_says_impossible_things_of_senders_blocks_no_round() -> None:
    """Voters would object to a header with them."""
    members = [member("ann.0"), member("eve.0"), replace(member("reader.0", 0), buffers=())]
    lies = (("ann.0", math.nan), ("ann.0", math.inf), ("ann.0", 0.5), ("reader.0", 4.0), ("nobody.0", 5.0))
    result = Reduced(FIRST, Assignment(0, 1, "eve.0", 0), ("mean",), (), (*lies, ("eve.0", 3.5)))
    _, (part,), _ = averaged(members, [result])
    assert part.loud == (("eve.0", 3.5),)


def test_one_that_held_rounds_up_is_waited_for_while_its_samples_are_needed() -> None:
    for samples, is_over in ((9, False), (10, True)):
        found = meeting(awaited="eve.0", doubtful="asha.0")
        assert not found.is_over(is_late=False)
        found.called("eve.0", Call(ENTRY.header.digest, FIRST, (Offer(0, samples, samples, None),), None))
        assert found.is_over(is_late=False) == is_over
        assert found.is_over(is_late=True)
    found.called("asha.0", Call(ENTRY.header.digest, FIRST, (), None))
    assert found.is_over(is_late=False)


def test_an_impossible_loss_is_not_known() -> None:
    assert member_of(ME, [Offer(0, 2, 1, 6.0), Offer(1, 2, 1, 2.0)]).loss == 2.0
    for loss in (None, 1e18):
        assert member_of(ME, [Offer(0, 2, 1, 6.0), Offer(1, 2, 1, loss)]).loss is None
