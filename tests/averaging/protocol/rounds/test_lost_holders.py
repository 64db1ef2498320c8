"""A run goes on when everybody that had an accepted update has gone."""

import pytest
from msgspec.structs import replace

from averaging.log.chain import Chain
from averaging.log.header import MOST_RESETS, Ballot, Certificate, Entry, Farewell, Header, HeaderKind, Part, Reset
from averaging.protocol.actions import SaveProposal
from averaging.protocol.buffers import Buffers
from averaging.protocol.catching_up.catching_up import CLAIM, CatchingUp
from averaging.protocol.catching_up.trust import Trust
from averaging.protocol.commit.voting import Voting
from averaging.protocol.contacts import Contacts
from averaging.protocol.fetching import Fetching
from averaging.protocol.messages import Accepted, Call, Contact, Goodbye, Message
from averaging.protocol.resting import Resting
from averaging.protocol.rounds.meeting import Situation
from averaging.protocol.rounds.parts import equal_parts
from averaging.protocol.rounds.reliability import Patience
from averaging.protocol.rounds.round import Phase, Round
from averaging.protocol.session import Session
from averaging.protocol.settings import Settings
from tests.averaging.believing import Believing, certified
from tests.averaging.log.headers import FIRST, header

SETTINGS = Settings("run", target_samples=1, chunks=1, snapshot_every=5)
TIMEOUTS = SETTINGS.timeouts
GENESIS = header(0, voters=("v1", "v2"), tie_breaker="coordinator.0")
LOST = header(1, GENESIS.digest, parts=(Part("v1", ("a chunk that nobody has",)),), voters=("v1", "v2"))
CHAIN = Chain([Entry(GENESIS, Certificate(FIRST))])
ME = Contact("coordinator.1", "coordinator", reachable=True, is_coordinator=True)


def test_a_commit_whose_chunks_nobody_has_is_not_followed_for_ever() -> None:
    asked: list[tuple[str, Message]] = []
    fetching = Fetching(lambda to, message: asked.append((to, message)), TIMEOUTS)
    trust = Trust(Contacts(ME, Believing()), "run", Believing())
    following = CatchingUp(Session(ME, SETTINGS, Believing()), fetching, trust)
    following.offered("v1", Entry(LOST, certified(FIRST, ("v1", "v2", FIRST.convener))), CHAIN, now=0.0, is_member=True)
    fetching.tick(TIMEOUTS.fetch)
    assert asked
    for now in range(int(CLAIM)):
        following.tick(GENESIS.head, float(now))
        assert following.is_behind(GENESIS.head)
    following.tick(GENESIS.head, CLAIM)
    assert not following.is_behind(GENESIS.head)


def test_a_commit_is_followed_while_somebody_says_that_it_has_it() -> None:
    fetching = Fetching(lambda to, message: None, TIMEOUTS)
    trust = Trust(Contacts(ME, Believing()), "run", Believing())
    following = CatchingUp(Session(ME, SETTINGS, Believing()), fetching, trust)
    following.offered("v1", Entry(LOST, certified(FIRST, ("v1", "v2", FIRST.convener))), CHAIN, now=0.0, is_member=True)
    for now in range(60):
        following.claims("v1", LOST.head, GENESIS.head, float(now))
    assert following.entries


def round_with_goodbyes(may_reset: bool, resets: tuple[Reset, ...] = ()) -> tuple[Round, Session]:
    """A ballot of a restarted coordinator; both voters have left, and one of them had accepted an update."""
    goodbyes = {
        "v1": Goodbye(Farewell("v1", GENESIS.digest, 0, FIRST), Accepted(FIRST, LOST)),
        "v2": Goodbye(Farewell("v2", GENESIS.digest, 0, None), None),
    }
    ballot = Ballot(1, ME.session)
    session, contacts = Session(ME, SETTINGS, Believing()), Contacts(ME, Believing())
    contacts.goodbyes.update(goodbyes)
    situation = Situation(
        session=session,
        contacts=contacts,
        ballot=ballot,
        previous=replace(GENESIS, resets=resets),
        recent=[GENESIS],
        patience=Patience(),
        awaited=frozenset(),
        may_reset=may_reset,
    )
    fetching = Fetching(lambda to, message: None, TIMEOUTS)
    voting = Voting(session, contacts, Buffers(), fetching, lambda header: "", Resting(ME.session))
    voting.new_step(GENESIS.digest, FIRST)
    made = Round(situation, equal_parts, voting, fetching, 0.0)
    made.called(ME.session, Call(GENESIS.digest, ballot, (), None))
    return made, session


def test_a_reset_keeps_an_accepted_update_only_if_somebody_has_it() -> None:
    made, session = round_with_goodbyes(may_reset=True)
    made.advance(TIMEOUTS.meeting)
    assert (made.phase, made.header and made.header.chunks) == (Phase.FETCHING, LOST.chunks)
    made.advance(TIMEOUTS.ballot / 2)
    (saved,) = session.take()
    assert isinstance(saved, SaveProposal)
    reset: Header = saved.accepted.header
    assert (reset.kind, reset.chunks, reset.previous) == (HeaderKind.RESET, (), GENESIS.digest)


def test_a_reset_drops_the_oldest_of_as_many_resets_as_a_header_carries() -> None:
    before = tuple(Reset(step - MOST_RESETS, Ballot(step, "coordinator")) for step in range(MOST_RESETS))
    made, session = round_with_goodbyes(may_reset=True, resets=before)
    made.advance(TIMEOUTS.meeting)
    made.advance(TIMEOUTS.ballot / 2)
    (saved,) = session.take()
    assert isinstance(saved, SaveProposal)
    assert saved.accepted.header.resets == (*before[1:], Reset(1, Ballot(1, ME.session)))


def test_an_update_of_the_round_itself_that_is_slow_to_come_is_not_given_up_for_a_reset() -> None:
    made, session = round_with_goodbyes(may_reset=True)
    made._fetch(LOST, 0.0)
    made.advance(TIMEOUTS.ballot / 2)
    assert (made.phase, session.take()) == (Phase.FETCHING, [])


@pytest.mark.parametrize("seconds", [TIMEOUTS.meeting, TIMEOUTS.ballot / 2, TIMEOUTS.ballot])
def test_nothing_is_reset_before_its_time(seconds: float) -> None:
    made, session = round_with_goodbyes(may_reset=False)
    made.advance(seconds)
    assert session.take() == []
    assert made.phase in (Phase.MEETING, Phase.FAILED)
