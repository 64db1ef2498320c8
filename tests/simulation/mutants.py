"""Faults of the program itself: each breaks one rule of the protocol, and the simulation has to find it.

That shows that the simulation can fail. A mutant that is found in no seed is a rule that nothing tests.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from averaging.log import credit, header
from averaging.log.header import Ballot, Head, Header
from averaging.protocol import credentials, peer, peer_components
from averaging.protocol.buffers import Buffer, Buffers
from averaging.protocol.catching_up import catching_up, trust
from averaging.protocol.catching_up.adopting import Adopting
from averaging.protocol.catching_up.backfilling import Backfilling
from averaging.protocol.catching_up.trust import Trust
from averaging.protocol.commit import objections, quorum
from averaging.protocol.commit.voting import Voter, Voting
from averaging.protocol.contacts import Contacts
from averaging.protocol.messages import Accepted, Goodbye, Offer, Plan, Propose
from averaging.protocol.peer import LogPeer
from averaging.protocol.resting import Resting
from averaging.protocol.rounds.meeting import Meeting
from averaging.protocol.settings import Settings
from tests.simulation.course import Course, run
from tests.simulation.exchange import Exchange
from tests.simulation.ledger import Ledger
from tests.simulation.signatures import Credentials, Signatures
from tests.simulation.state import Replay, State


@dataclass(frozen=True)
class Mutant:
    """A broken rule."""

    name: str
    seed: int  # among the first in which it was found; a change of the protocol or of the faults changes all courses
    patches: tuple[Callable[[], Any], ...] = ()
    sessions_survive: bool = False  # a restarted process has the session of the one before

    def run(self, seed: int) -> Course:
        """One course with the rule broken."""
        with contextlib.ExitStack() as stack:
            for make in self.patches:
                stack.enter_context(make())
            return run(seed, sessions_survive=self.sessions_survive)


def find(mutant: Mutant, seeds: Collection[int]) -> Course | None:
    """A course in which the mutant breaks an invariant: that of its own seed, or the first one of these."""
    return next((course for course in map(mutant.run, (mutant.seed, *seeds)) if course.violation), None)


def _votes(change: Callable[[int, bool], int]) -> Callable[[], Any]:
    return lambda: patch.object(quorum, "votes_needed", change)


def _always(where: Any, name: str, answer: object) -> Callable[[], Any]:
    return lambda: patch.object(where, name, lambda *asked, **known: answer)


def _apply_on_proposal() -> Any:
    after = LogPeer._after

    def votes_and_applies(self: LogPeer, now: float) -> None:
        proposal = self.voting._proposal
        after(self, now)
        if proposal is None or self.voting._proposal is not None or self.log.chain is None:
            return
        if proposal.header.previous == self.log.tip.digest:
            entry = header.Entry(proposal.header, header.Certificate(proposal.ballot, (self.me.session,)))
            self._components.apply(entry, now)

    return patch.object(LogPeer, "_after", votes_and_applies)


def _any_coordinator_breaks_ties() -> Any:
    def has_quorum(previous: Header, convener: str, votes: Collection[str], goodbyes: Collection[str]) -> bool:
        left = set(previous.voters) - set(goodbyes)
        needed = quorum.votes_needed(len(left), convener.startswith("coordinator"))
        return len(left & set(votes)) >= needed

    return patch.object(quorum, "has_quorum", has_quorum)


def _accepted_is_ignored() -> Any:
    return patch.object(quorum, "highest_accepted", lambda known: None)


def _tie_breaker_forgets() -> Any:
    original = Meeting.accepted_by_others

    def without_own(self: Meeting, own: Accepted | None) -> Header | None:
        me = self.situation.me.session
        calls = {one: replace(call, accepted=None) if one == me else call for one, call in self.calls.items()}
        with patch.object(self, "calls", calls):
            return original(self, None)

    return patch.object(Meeting, "accepted_by_others", without_own)


def _accepts_without_parts() -> Any:
    vote = Voting.vote

    def votes_at_once(voting: Voting) -> None:
        with patch.object(voting._fetching, "holds", lambda digests: True):
            vote(voting)

    return patch.object(Voting, "vote", votes_at_once)


def _empty_goodbye() -> Any:
    def says_nothing(voting: Voting, step: int) -> Goodbye:
        said = header.Farewell(voting.voter.session, voting.instance, step, None)
        return Goodbye(credentials.signed_farewell(said, voting._credentials), None)

    return patch.object(Voting, "goodbye", says_nothing)


def _goodbyes_despite_promises() -> Any:
    def counted(previous: Header, ballot: Ballot, goodbyes: Mapping[str, header.Farewell]) -> dict[str, Any]:
        return {session: one for session, one in goodbyes.items() if session in previous.voters}

    return patch.object(quorum, "counted_goodbyes", counted)


@contextlib.contextmanager
def _promises_are_forgotten() -> Iterator[None]:
    def promise(self: Voter, ballot: Ballot) -> bool:
        self.promised = ballot
        return True

    propose = Voting.propose

    def takes_any_proposal(self: Voting, sender: str, proposal: Propose, now: float) -> None:
        self.voter.promised = None
        propose(self, sender, proposal, now)

    with patch.object(Voter, "promise", promise), patch.object(Voting, "propose", takes_any_proposal):
        yield


def _lowest_accepted() -> Any:
    def lowest(known: Any) -> Header | None:
        found = [accepted for accepted in known if accepted is not None]
        return min(found, key=lambda accepted: accepted.ballot).header if found else None

    return patch.object(quorum, "highest_accepted", lowest)


@contextlib.contextmanager
def _merged_buffers() -> Iterator[None]:
    offer, batches_in = Buffers.offer, Exchange.batches_in

    @dataclass
    class Merged(Buffer):
        """Of several buffers, under the number of the last one."""

        of: tuple[int, ...] = ()

    def offers_one(self: Buffers) -> tuple[Offer, ...]:
        offer(self)
        if len(self.closed) > 1:
            merged = Merged(max(self.closed), of=tuple(self.closed))
            for buffer in self.closed.values():
                merged.weight, merged.samples = merged.weight + buffer.weight, merged.samples + buffer.samples
                merged.loss += buffer.loss
                merged.of += buffer.of if isinstance(buffer, Merged) else ()
            self.closed = {merged.number: merged}
        return offer(self)

    def of_all(self: Exchange, buffers: Buffers, number: int) -> list[Any]:
        merged = buffers.closed.get(number)
        if not isinstance(merged, Merged):
            return batches_in(self, buffers, number)
        return [batch for one in sorted(set(merged.of)) for batch in self._batches[one]]

    with patch.object(Buffers, "offer", offers_one), patch.object(Exchange, "batches_in", of_all):
        yield


def _buffers_stay() -> Any:
    return patch.object(Buffers, "remove", lambda self, numbers: None)


def _longest_chain_wins() -> Any:
    def longer(theirs: Head, ours: Head) -> bool:
        return theirs.step > ours.step

    return patch.object(catching_up, "supersedes", longer)


def _mixed_chunks() -> Any:
    def whatever_came_first(self: Replay, entry: Header) -> tuple[Any, ...]:
        found = []
        for digest in entry.chunks:
            instance, chunk, _ = self.contents[digest]
            same = [
                one for one in self.contents.values() if not isinstance(one, State) and one[:2] == (instance, chunk)
            ]
            found.append(same[0])
        return tuple(found)

    return patch.object(Replay, "update_of", whatever_came_first)


def _full_credit() -> Any:
    original = credit.contributions
    return patch.object(credit, "contributions", lambda entry: original(replace(entry, exclusions=())))


@contextlib.contextmanager
def _ledger_by_step() -> Iterator[None]:
    entered: dict[int, dict[tuple[int, str], Any]] = {}

    def enter(self: Ledger, entry: Header) -> None:
        mine = entered.setdefault(id(self), {})
        found = {one.session: one.tokens for one in credit.contributions(entry)}
        new = {session: tokens for session, tokens in found.items() if (entry.step, session) not in mine}
        mine.update({(entry.step, session): tokens for session, tokens in new.items()})
        self._entered.setdefault(entry.digest, new)

    with patch.object(Ledger, "enter", enter):
        yield


def _only_newcomers_rebase() -> Any:
    return patch.object(Replay, "rebase", lambda self, state: state)


def _goodbyes_of_others() -> Any:
    def believes(self: LogPeer, sender: str, goodbye: Goodbye, now: float) -> None:
        self._contacts.has_left(goodbye)
        self._contacts.learn_of(goodbye.accepted)
        self.progress.views.forget(goodbye.farewell.session)
        self.convening.has_left(goodbye.farewell.session)

    return patch.object(LogPeer, "_on_goodbye", believes)


def _contacts_without_proof() -> Any:
    return patch.object(Credentials, "admits", lambda self, contact: True)


@contextlib.contextmanager
def _resets_of_anybody() -> Iterator[None]:
    with (
        patch.object(credentials, "is_ordered", lambda header, credentials: True),
        patch.object(objections, "is_ordered", lambda header, credentials: True),
    ):
        yield


def _only_compares() -> Any:
    go_on = Adopting.go_on

    def compares(self: Adopting) -> None:
        with patch.object(self, "_committed", None):
            go_on(self)

    return patch.object(Adopting, "go_on", compares)


def _any_log() -> Any:
    return patch.object(Trust, "believes", lambda self, session, log, *_: trust._is_whole(log, self._run))


def _rest_for_ever() -> Any:
    def planned(self: Resting, plan: Plan, now: float) -> None:
        self.rests = self._session in plan.resting

    return patch.multiple(Resting, planned=planned, tick=lambda *now: None)


MUTANTS = (
    Mutant("apply on proposal", 1, (_apply_on_proposal,)),
    Mutant("coordinator's quorum of one", 1, (_votes(lambda n, ties: min(1, n) if ties else n // 2 + 1),)),
    Mutant("takeover at half", 1, (_votes(lambda n, ties: (n + 1) // 2),)),
    Mutant("first ballot after a restart at half", 1, (_any_coordinator_breaks_ties,)),
    Mutant("accepted headers in calls are ignored", 2, (_accepted_is_ignored,)),
    Mutant("the lowest accepted header is proposed", 5, (_lowest_accepted,)),
    Mutant("coordinator forgets what it proposed", 2, (_tie_breaker_forgets,)),
    Mutant("promises are forgotten", 1, (_promises_are_forgotten,)),
    Mutant("accept without parts", 1, (_accepts_without_parts,)),
    Mutant("goodbye without content", 27, (_empty_goodbye,)),
    Mutant("goodbye counts despite a higher promise", 27, (_goodbyes_despite_promises,)),
    Mutant("any proposal is believed", 4, (_always(peer_components, "objection", ""),)),
    Mutant("contacts do not come with proposals", 7, (_always(Contacts, "evidence", ()),)),
    Mutant("a restarted session votes", 2, sessions_survive=True),
    Mutant("buffers are merged on retry", 2, (_merged_buffers,)),
    Mutant("a committed buffer is offered again", 1, (_buffers_stay,)),
    Mutant("the longest chain beats votes", 26, (_longest_chain_wins,)),
    Mutant("chunks of two reducers are mixed", 3, (_mixed_chunks,)),
    Mutant("full weight is credited despite exclusions", 2, (_full_credit,)),
    Mutant("the ledger is keyed by step and peer", 26, (_ledger_by_step,)),
    Mutant("headers that were missed are not asked for", 117, (_always(Backfilling, "tick", None),)),
    Mutant("snapshots are compared by digest", 20, (_always(Adopting, "compared", None),)),
    Mutant("snapshots of other processors are not taken over", 15, (_only_compares,)),
    Mutant("only newcomers rebase", 1, (_only_newcomers_rebase,)),
    Mutant("any signature is believed", 4, (_always(Signatures, "has", True),)),
    Mutant("goodbyes of others are believed", 4, (_goodbyes_of_others,)),
    Mutant("contacts are believed without proof", 4, (_contacts_without_proof,)),
    Mutant("votes are not signed", 4, (_always(quorum, "_is_signed", True),)),
    Mutant("anybody resets", 4, (_resets_of_anybody,)),
    Mutant("any log is believed", 2, (_any_log,)),
    Mutant("all rest, and for ever, if a plan says so", 29, (_rest_for_ever,)),
    # the second one is that of the peer that has lied
    Mutant("any weight is believed", 2, (_always(Settings, "may_bring", True), _always(peer, "members_objection", ""))),
    Mutant("snapshots are not named by headers", 5, (_always(trust, "_is_named", True),)),
)
