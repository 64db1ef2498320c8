"""What is remembered of sessions that have left: as long as a ballot may count it, and no longer."""

from averaging.log.header import Ballot, Farewell, Member
from averaging.protocol.contacts import MOST_GOODBYES, Contacts
from averaging.protocol.messages import Accepted, Contact, Goodbye
from tests.averaging.believing import Believing
from tests.averaging.log.headers import header

ME = Contact("me.0", "me", reachable=True)
ANN = Contact("ann.0", "ann", reachable=True)


def after_leaving(at: int, tip: int, *, is_voter: bool = False, is_listed: bool = False) -> bool:
    """Whether the goodbye of a session that left at a step is remembered when the newest header is that of `tip`."""
    contacts = Contacts(ME, Believing())
    contacts.listed([ANN])
    contacts.has_left(Goodbye(Farewell(ANN.session, "", at, None), None))
    contacts.listed([ANN] if is_listed else [])
    contacts.forget_goodbyes(header(tip, voters=(ANN.session,) if is_voter else ()))
    return ANN.session in contacts.goodbyes


def test_a_goodbye_is_forgotten_when_its_session_can_be_no_voter_any_more() -> None:
    assert after_leaving(at=5, tip=5)  # it may be a member of the next header, and a voter after that
    assert after_leaving(at=5, tip=4)
    assert after_leaving(at=5, tip=6, is_voter=True)
    assert after_leaving(at=5, tip=99, is_listed=True)  # or it would be taken to be there
    assert not after_leaving(at=5, tip=6)


def test_a_session_that_nobody_knows_of_does_not_leave() -> None:
    contacts = Contacts(ME, Believing())
    contacts.has_left(Goodbye(Farewell(ANN.session, "", 5, None), None))
    assert not contacts.goodbyes


def test_of_the_sessions_of_one_peer_only_the_last_goodbyes_are_remembered() -> None:
    contacts = Contacts(ME, Believing())
    contacts.listed([ANN])
    contacts.has_left(Goodbye(Farewell(ANN.session, "", 5, None), None))
    sessions = [Contact(f"eve.{number}", "eve", reachable=True) for number in range(3 * MOST_GOODBYES)]
    contacts.listed(sessions)
    for one in sessions:
        contacts.has_left(Goodbye(Farewell(one.session, "", 2**60, None), None))
    assert list(contacts.goodbyes) == [ANN.session, *(one.session for one in sessions[-MOST_GOODBYES:])]


def test_no_goodbye_is_kept_for_good_or_is_longer_than_it_can_be() -> None:
    assert not after_leaving(at=2**60, tip=6)
    contacts = Contacts(ME, Believing())
    contacts.listed([ANN])
    for count in (10, 100_000):
        accepted = Accepted(
            Ballot(1, "x.0"), header(3, members=(Member(ANN.session, "ann", tuple(range(count)), 1, True),))
        )
        contacts.has_left(Goodbye(Farewell(ANN.session, "", 5, None), accepted))
        assert (ANN.session in contacts.goodbyes) == (count == 10)
        contacts.goodbyes.clear()
