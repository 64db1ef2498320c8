"""A round of one group, as the member that convenes it sees it."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from averaging.log.header import Ballot, Header, HeaderKind, Part
from averaging.moshpit.group_keys import GroupSettings
from averaging.moshpit.group_round import ROUNDS as NEXT_STEP
from averaging.moshpit.group_round import STAND_INS, Components, GroupRound
from averaging.protocol.buffers import Buffers
from averaging.protocol.contacts import Contacts
from averaging.protocol.fetching import Fetching
from averaging.protocol.messages import Assignment, Call, Contact, Offer, Plan, Reduced, Reducing, Refused
from averaging.protocol.rounds.parts import MemberProfile, Planned
from averaging.protocol.rounds.reducing import Reduction
from averaging.protocol.rounds.reliability import Patience
from averaging.protocol.session import Session
from averaging.protocol.settings import Settings
from tests.averaging.believing import Believing
from tests.averaging.log.headers import member

ME, OTHER = Contact("me.0", "me", reachable=True), Contact("other.0", "other", reachable=False)
SETTINGS = Settings("run", target_samples=4, chunks=3, snapshot_every=5, most_masked=10)
DONE, OPEN = Assignment(0, 1, ME.session, 0), Assignment(1, 2, ME.session, 0)


def both_to_me(chunks: int, members: Sequence[MemberProfile]) -> Planned:
    """Two parts."""
    return Planned((DONE, OPEN))


def convened(number: int = 0) -> tuple[GroupRound, Session]:
    """A round of this peer, which has no gradients, and another one that may have some."""
    session = Session(ME, SETTINGS, Believing())
    contacts = Contacts(ME, Believing())
    contacts.listed([OTHER])
    fetching = Fetching(session.send, SETTINGS.timeouts)
    call = Call("", Ballot(number, ""), (), None)
    names = [ME.session, OTHER.session]
    buffers, groups = Buffers(SETTINGS.most_samples), GroupSettings(4, None, 10)
    reduction = Reduction(session, Patience())
    shared = Components(session, contacts, groups, buffers, reduction, fetching, both_to_me, lambda entry: None)
    return GroupRound(names, {ME.session}, call, 2.0, shared, 0.0), session


@pytest.mark.parametrize(
    ("sender", "news"),
    [
        (ME.session, Reduced(Ballot(0, ME.session), DONE, ("mean",), ())),  # the answer to a plan that is told again
        (ME.session, Reducing(Ballot(0, ME.session), DONE.first, 0)),  # of a part that is done
        (OTHER.session, Reducing(Ballot(0, ME.session), OPEN.first, 0)),  # of another's part
    ],
)
def test_a_round_in_which_nothing_new_happens_ends_soon(sender: str, news: Reduced | Reducing) -> None:
    current, _ = convened()
    current.on_call(OTHER.session, Call("", current.ballot, (Offer(0, 5, 1, 2.0),), None), 0.0)
    current.on_news(ME.session, Reduced(current.ballot, DONE, ("mean",), ()), 1.0)
    now = 1.0
    while not current.is_over and now < 100.0:
        now += 0.5
        current.on_news(sender, news, now)
        current.tick(now)
    assert current.header is None
    assert now <= 1.0 + STAND_INS * SETTINGS.timeouts.part + 0.5


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": HeaderKind.ROLLBACK},
        {"parts": (Part(ME.session, ("a", "b")),)},
        {"members": (member(ME.session, weight=2**62), member(OTHER.session))},
        {"members": (member(OTHER.session), member(ME.session))},
        {"members": (member(OTHER.session),)},
    ],
)
def test_a_header_that_no_group_can_have_is_not_taken_for_its_mean(changes: dict[str, Any]) -> None:
    current, _ = convened()
    members = member(ME.session), member(OTHER.session)
    right = Header("run", 1, HeaderKind.GROUP, "", current.ballot, members, (Part(ME.session, ("a", "b", "c")),))
    current.committed(replace(right, **changes), 1.0)
    current.tick(1.5)
    assert current.header is None
    current.committed(right, 2.0)
    assert current.header == right


@pytest.mark.parametrize(
    ("number", "offers", "is_taken"),
    [
        (0, (Offer(0, 5, 1, 2.0),), True),
        (0, (Offer(0, 5, 1, 2.0), Offer(1, 0, 0, 9e18)), False),
        (0, (Offer(0, 5, 2**62, 2.0),), False),
        (1, (Offer(2**40 + 1, 5, 0, None),), True),
        (1, (Offer(2**40 + 1, 5, 2**62, None),), False),
        (1, (Offer(2**40 + 1, 5, 0, 9e18),), False),
        (NEXT_STEP, (Offer(2**40, 2**20, 0, None),), True),
        (NEXT_STEP, (Offer(2**40, 2**20, 2**62, None),), False),
    ],
)
def test_a_member_offers_what_it_can_have_or_is_refused(number: int, offers: tuple[Offer, ...], is_taken: bool) -> None:
    current, session = convened(number)
    current.on_call(OTHER.session, Call("", current.ballot, offers, None), 0.0)
    said = [one.message for one in session.take() if isinstance(one.message, Plan | Refused)]  # type: ignore[union-attr]
    assert [isinstance(one, Plan) for one in said][:1] == [is_taken]


def test_a_plan_with_gradients_that_this_peer_has_not_offered_is_not_followed() -> None:
    current, _ = convened()
    members = member(ME.session, user=ME.user), member(OTHER.session, user=OTHER.user)
    plan = Plan("", current.ballot, members, (replace(DONE, count=3),))
    assert not current.on_plan(plan, 1.0)
    assert current.on_plan(
        replace(plan, members=(replace(members[0], buffers=(), weight=0, samples=0), members[1])), 1.0
    )
