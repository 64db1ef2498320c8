"""Who leads the next step, and who takes over."""

import pytest

from averaging.log.header import Ballot
from averaging.protocol.messages import Contact
from averaging.protocol.rounds.convener_choice import ConvenerChoice, succession
from averaging.protocol.rounds.reliability import Patience
from averaging.protocol.settings import Timeouts
from tests.averaging.log.headers import header

COORDINATOR = Contact("coordinator.0", "coordinator", reachable=True, is_coordinator=True)
PEERS = {name: Contact(name, name, reachable=name != "hidden") for name in ("a", "b", "c", "d", "hidden", "guest")}
CONTACTS = {**PEERS, COORDINATOR.session: COORDINATOR}
TIP = header(voters=("a", "b", "c", "d", "hidden"), ballot=Ballot(3, COORDINATOR.session))
TIMEOUTS = Timeouts()


def view(me: Contact, now: float = 0.0) -> ConvenerChoice:
    """One peer's, a moment after it has heard the coordinator."""
    choice = ConvenerChoice(me, TIMEOUTS, Patience(), now)
    choice.new_step()
    choice.heard(COORDINATOR, gathered_all=False, now=now)
    return choice


def leaders(views: dict[str, ConvenerChoice], now: float) -> set[str]:
    return {name for name, one in views.items() if one.leads(TIP, PEERS, now)}


def test_reachable_voters_succeed_in_one_order_that_changes_with_the_header() -> None:
    order = succession(TIP, CONTACTS)
    assert sorted(order) == ["a", "b", "c", "d"]
    assert succession(TIP, dict(reversed(CONTACTS.items()))) == order
    others = [succession(header(step, voters=TIP.voters), CONTACTS) for step in range(20)]
    assert any(one != order for one in others)


def test_the_last_acting_convener_comes_first() -> None:
    for last in "abcd":
        assert succession(header(voters=TIP.voters, ballot=Ballot(3, last)), CONTACTS)[0] == last


def test_the_coordinator_leads_unless_its_disk_is_full_or_another_ballot_is_open() -> None:
    choice = view(COORDINATOR)
    assert choice.leads(TIP, PEERS, 0.0)
    choice.other_ballot(Ballot(4, "a"), is_coordinator=False, now=1.0)
    assert not choice.leads(TIP, PEERS, 1.0)
    assert choice.leads(TIP, PEERS, 1.0 + TIMEOUTS.ballot)
    choice.can_convene = False
    assert not choice.leads(TIP, PEERS, 1.0 + TIMEOUTS.ballot)


def test_voters_take_over_one_after_the_other_when_the_coordinator_is_silent() -> None:
    views = {name: view(contact) for name, contact in PEERS.items()}
    order = succession(TIP, PEERS)
    assert leaders(views, TIMEOUTS.absence - 0.1) == set()
    for rank in range(4):
        now = TIMEOUTS.absence + rank * TIMEOUTS.succession
        assert leaders(views, now) == set(order[: rank + 1])
    assert leaders(views, 1000.0) == set(order)  # neither a guest nor a voter that nobody can reach


def test_a_word_of_the_first_successor_holds_the_others_back() -> None:
    first, second, *_ = succession(TIP, PEERS)
    choice = view(PEERS[second])
    for now in range(20, 60, 2):
        choice.heard(PEERS[first], gathered_all=False, now=float(now))
        assert not choice.leads(TIP, PEERS, now + 1.0)


def test_a_voter_that_convenes_nothing_holds_the_others_back_for_a_while_only() -> None:
    liar, second, *_ = succession(TIP, PEERS)
    choice, now = view(PEERS[second]), 0.0

    def leads_after(seconds: int) -> bool:
        """While the liar goes on saying that it convenes."""
        nonlocal now
        until = now + seconds
        while now < until:
            now += 2.0
            choice.heard(PEERS[liar], gathered_all=False, now=now)
        return choice.leads(TIP, PEERS, now)

    assert not leads_after(int(TIMEOUTS.word))
    assert leads_after(int(TIMEOUTS.absence + TIMEOUTS.succession) + 2)
    choice.decided(Ballot(5, "c"), Ballot(5, "c"), now)
    choice.new_step()
    assert leads_after(int(TIMEOUTS.absence + TIMEOUTS.succession) + 2), "in the next step it is heard again"
    choice.decided(Ballot(6, liar), Ballot(5, "c"), now)
    choice.new_step()
    assert leads_after(int(TIMEOUTS.absence + TIMEOUTS.succession) + 2), "it has proposed again what another one made"
    choice.decided(Ballot(7, liar), Ballot(7, liar), now)
    choice.new_step()
    assert not leads_after(int(TIMEOUTS.word)), "it has convened one, and is not heard"


def test_the_acting_convener_goes_on_at_once_at_the_next_step_but_yields_to_the_coordinator() -> None:
    acting = succession(TIP, PEERS)[0]
    choice = view(PEERS[acting])
    tip = header(2, voters=TIP.voters, ballot=Ballot(4, acting))
    choice.new_step()
    assert choice.leads(tip, PEERS, TIMEOUTS.absence)
    choice.heard(COORDINATOR, gathered_all=False, now=30.0)
    assert not choice.leads(tip, PEERS, 30.0)


@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
def test_a_full_batch_without_a_commit_is_taken_over_though_the_coordinator_speaks(name: str) -> None:
    choice = view(PEERS[name])
    rank = succession(TIP, PEERS).index(name)
    due = TIMEOUTS.absence + rank * TIMEOUTS.succession
    for now in range(0, 60, 2):
        choice.heard(COORDINATOR, gathered_all=True, now=float(now))
        assert choice.leads(TIP, PEERS, float(now)) is (now >= due)
    choice.new_step()
    choice.heard(COORDINATOR, gathered_all=True, now=60.0)
    assert not choice.leads(TIP, PEERS, 60.0)


def test_a_round_in_which_something_moves_is_not_taken_over_for_a_while() -> None:
    views = {name: view(contact) for name, contact in PEERS.items()}
    for now in range(int(TIMEOUTS.round + TIMEOUTS.absence) + 1):
        for one in views.values():
            one.heard(COORDINATOR, gathered_all=True, now=float(now))
            one.round_moves(float(now))
        assert bool(leaders(views, float(now))) == (now >= TIMEOUTS.round + TIMEOUTS.absence)
    for one in views.values():
        one.new_step()
        one.round_moves(500.0)  # of the round before
        one.heard(COORDINATOR, gathered_all=True, now=500.0)
    assert not leaders(views, 500.0 + TIMEOUTS.absence - 0.1)
    assert leaders(views, 500.0 + TIMEOUTS.absence)


def test_peers_report_to_the_convener_and_while_it_is_silent_to_those_that_may_be_next() -> None:
    choice = view(PEERS["guest"])
    assert choice.report_to(TIP, CONTACTS, 1.0) == [COORDINATOR.session]
    silent = 3 * TIMEOUTS.report
    assert choice.report_to(TIP, CONTACTS, silent) == [COORDINATOR.session, *succession(TIP, CONTACTS)]
    assert set(choice.report_to(None, CONTACTS, silent)) == CONTACTS.keys() - {"hidden", "guest"}


def test_a_peer_that_says_to_convene_does_not_keep_reports_from_the_coordinator() -> None:
    choice = view(PEERS["a"])
    choice.heard(PEERS["guest"], gathered_all=False, now=1.0)
    assert set(choice.report_to(TIP, CONTACTS, 1.5)) == {"guest", COORDINATOR.session}


def test_ballots_of_a_convener_that_ends_none_are_left_alone_after_some() -> None:
    choice, now, number = view(COORDINATOR), 0.0, 3
    while choice.accepts("a", is_coordinator=False, now=now):
        number += 1
        choice.other_ballot(Ballot(number, "a"), is_coordinator=False, now=now)
        now += TIMEOUTS.ballot / 4
        choice.speaks(now)
    assert number - 3 == 3
    assert choice.accepts("b", is_coordinator=False, now=now)
    choice.batch_is_full(now)
    assert choice.accepts("a", is_coordinator=False, now=now + 2 * TIMEOUTS.absence), "perhaps nobody else can"


def test_ballots_that_end_well_and_those_of_the_coordinator_cost_nothing() -> None:
    choice = view(PEERS["b"])
    for number in range(4, 20):
        for convener in ("a", COORDINATOR.session):
            ballot, now = Ballot(number, convener), 20.0 * number
            choice.heard(COORDINATOR, gathered_all=False, now=now)
            choice.other_ballot(ballot, is_coordinator=convener != "a", now=now)
            choice.decided(Ballot(number, "a"), Ballot(number, "a"), now + TIMEOUTS.ballot)
            assert choice.accepts(convener, is_coordinator=convener != "a", now=now)


def test_a_convener_without_trust_takes_over_if_all_others_are_silent() -> None:
    choice = view(PEERS["b"])
    for number in range(4, 8):
        choice.other_ballot(Ballot(number, "a"), is_coordinator=False, now=5.0 * number)
    choice.heard(COORDINATOR, gathered_all=False, now=50.0)
    assert not choice.accepts("a", is_coordinator=False, now=50.0 + 2 * TIMEOUTS.absence - 0.1)
    choice.heard(PEERS["a"], gathered_all=False, now=60.0)  # its own word does not count
    assert choice.accepts("a", is_coordinator=False, now=50.0 + 2 * TIMEOUTS.absence)


def test_a_ballot_that_others_are_asked_for_again_and_again_holds_them_back_once() -> None:
    choice = view(COORDINATOR)
    ballot = Ballot(7, "a")
    for now in (1.0, 6.0, 11.0):
        choice.other_ballot(ballot, is_coordinator=False, now=now)
        assert choice.leads(TIP, PEERS, now) == (now >= 11.0)
