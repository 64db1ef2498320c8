"""One round of one group: its members call, the convener plans, reducers average, and all go on with the mean.

What the mean weighs: a group of n members with weights w_i has the mean m = sum(w_i g_i) / sum(w_i), and each member
goes on with it at the weight sum(w_i) / n, in whole masked tokens. So the sums over all peers of weights, and of
weights times gradients, are what they were before the round, whatever the sizes of groups: on a full grid the mean is
exact in the end, and without one it comes nearer with every round.

A round that fails costs its members that round: nothing is voted for, and no convener is replaced.
"""

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from averaging.log.header import Ballot, Certificate, Entry, Header, HeaderKind, Member
from averaging.moshpit.group_keys import GroupSettings
from averaging.protocol.buffers import Buffers
from averaging.protocol.commit.objections import listing_objection
from averaging.protocol.contacts import Contacts
from averaging.protocol.fetching import Fetching, first_of
from averaging.protocol.messages import Call, Commit, Plan, Reduced, Reducing, Refused
from averaging.protocol.rounds.meeting import averaged, member_of, with_possible_figures
from averaging.protocol.rounds.parts import Assignments, Planner, covers
from averaging.protocol.rounds.reducing import Reduction
from averaging.protocol.session import Session

STAND_INS = 2  # reducers of a part that may be silent, one after the other, before a round is given up
WHOLE, PARTIAL = 2**20, 2**10  # weights of parameters: of peers that had all updates, and of those that missed some


@dataclass(frozen=True)
class Components:
    """What steps and rounds of one peer share."""

    session: Session
    contacts: Contacts
    groups: GroupSettings
    buffers: Buffers
    reduction: Reduction
    fetching: Fetching
    planner: Planner
    credit: Callable[[Entry], None]  # has the coordinator know of a mean with which members are credited


class GroupRound:
    """A round as one member sees it. `header` names the mean, which is here once the round `is_over`; None: no mean.

    Args:
        members: sessions that are expected.
        reachable: those of them that accept connections; the first in the order of a hash convenes.
        call: what this peer brings; the convener of its ballot is filled in.
        patience: seconds for which a convener waits for members.
    """

    def __init__(
        self,
        members: Sequence[str],
        reachable: Collection[str],
        call: Call,
        patience: float,
        components: Components,
        now: float,
    ):
        self._session = session = components.session
        self._me, self._settings, self._timeouts = session.me, session.settings, session.timeouts
        self._send, self._planner = session.send, components.planner
        self._contacts, self._fetching = components.contacts, components.fetching
        self._reduction, self._credit = components.reduction, components.credit
        number = call.ballot.number
        candidates = sorted(reachable, key=lambda one: hashlib.sha256(f"{number} {one}".encode()).digest())
        self.ballot = Ballot(number, candidates[0] if candidates else "")
        self.header: Header | None = None
        self.planned_at: float | None = None  # when this peer's pieces went on their way
        self.is_over = not self.ballot.convener
        self._call = replace(call, ballot=self.ballot)
        self._expected, self._patience = set(members), patience
        self._began = self._heard_at = now
        self._asked_at = self._committed_at = -1e9
        self._moved_at = now  # when a reducer has said something to the convener
        self._calls: dict[str, Call] = {}  # to this peer, by session
        self._assignments: Assignments | None = None
        self.tick(now)

    @property
    def convenes(self) -> bool:
        """Whether this peer makes the plan."""
        return self.ballot.convener == self._me.session

    # -- what comes

    def on_call(self, sender: str, call: Call, now: float) -> None:
        """A member is there, or asks again since it has heard nothing."""
        if self._contacts.get(sender) is None or not self._is_possible(call):  # or its user could not be named
            self._send(sender, Refused(call.ballot, self.ballot))
        elif self._assignments is None and not self.is_over:
            self._calls[sender] = with_possible_figures(call)
            self.tick(now)
        elif sender not in self._calls or (self.is_over and self.header is None):
            self._send(sender, Refused(call.ballot, self.ballot))
        elif self.header is not None:
            self._send(sender, Commit(Entry(self.header, Certificate(self.ballot))))
        elif self._assignments is not None:
            self._send(sender, self._assignments.plan)

    def _is_possible(self, call: Call) -> bool:
        """Whether a member can have what it offers: of gradients no more than it may bring to a step."""
        settings, offers = self._settings, call.buffers
        if not all(one.weight > 0 for one in offers):
            return False
        if is_first(self.ballot.number):
            fits = all(settings.may_bring(one.samples, one.weight) for one in offers)
            return fits and settings.may_bring(call.samples, call.weight)
        if any(one.samples or one.loss is not None for one in offers):  # samples are credited in the first round
            return False
        return call.weight <= self._most_weight

    @property
    def _most_weight(self) -> int:
        """Of a member."""
        settings = self._settings
        return WHOLE if is_of_parameters(self.ballot.number) else settings.most_samples * settings.most_masked

    def on_plan(self, plan: Plan, now: float) -> bool:
        """The convener knows all members. Returns whether its plan can be followed."""
        offered = {one.number for one in self._call.buffers}
        if not covers(plan.parts, self._settings.chunks) or listing_objection(plan.members):
            return False
        if not offered.issuperset(plan.buffers_of(self._me.session)):
            return False
        self._heard_at = now
        if self.header is None and not self.is_over:
            self.planned_at = now if self.planned_at is None else self.planned_at
            self._reduction.begin(plan, now)
        return True

    def on_news(self, sender: str, news: Reducing | Reduced, now: float) -> None:
        """A reducer is at work, or has done its part."""
        if self._assignments is None:
            return
        match news:
            case Reducing():
                is_new = self._assignments.reducing(sender, news, now)
            case Reduced():
                is_new = self._assignments.reduced(sender, news, now)
        if is_new:
            self._moved_at = now

    def committed(self, header: Header, now: float) -> None:
        """The mean has a name: get what is missing of it."""
        is_member = any(one.session == self._me.session for one in header.members)
        if self.header is None and not self.is_over and is_member and self._is_possible_mean(header):
            self.header, self._committed_at = header, now
            sources = first_of([header.ballot.convener], (one.session for one in header.members), but=self._me.session)
            self._fetching.want_header(header, sources, now, is_new=True)
            self.tick(now)

    def _is_possible_mean(self, header: Header) -> bool:
        return (
            header.kind is HeaderKind.GROUP
            and len(header.chunks) == self._settings.chunks
            and not listing_objection(header.members)
            and all(one.weight <= self._most_weight for one in header.members)
        )

    def refused(self) -> None:
        """The convener goes on without this peer."""
        if self.header is None:
            self.is_over = True

    def heard(self, sender: str, now: float) -> None:
        """Take in that a peer has said something."""
        if sender == self.ballot.convener:
            self._heard_at = now

    def lost(self, session: str, now: float) -> None:
        """The connection to a peer has broken. A convener that lives answers the next call."""
        self._expected.discard(session)
        if self._assignments is not None:
            self._assignments.lost(session)
        if session == self.ballot.convener:
            self._heard_at = min(self._heard_at, now - self._timeouts.part + 2 * self._timeouts.resend)
            self._asked_at = -1e9
        self.tick(now)

    def tick(self, now: float) -> None:
        """Go on as far as the time allows."""
        if self.is_over:
            return
        if self.header is not None:
            self._wait_for_chunks(now)
        elif self.convenes:
            self._convene(now)
        elif now >= min(self._heard_at + self._timeouts.part, self._gives_up_at):
            self.is_over = True
        elif now >= self._asked_at + (self._timeouts.resend if self.planned_at is None else self._timeouts.report):
            self._asked_at = now
            self._send(self.ballot.convener, self._call)

    @property
    def _gives_up_at(self) -> float:
        """However alive the convener is: it may have its hands full with the round before."""
        wait = self._patience + self._timeouts.part if self.planned_at is None else self._timeouts.round
        return self._began + wait

    def _wait_for_chunks(self, now: float) -> None:
        assert self.header is not None
        if self._fetching.holds(self.header.needed):
            self.is_over = True
        elif now >= self._committed_at + self._timeouts.sending or (
            now >= self._committed_at + self._timeouts.part and not self._fetching.is_moving(now)
        ):
            self._fetching.want_instead(self.header.needed, ())
            self.header, self.is_over = None, True

    # -- of the convener

    def _convene(self, now: float) -> None:
        self._calls.setdefault(self._me.session, self._call)
        if self._assignments is None:
            if self._expected <= self._calls.keys() or now >= self._began + self._patience:
                self._plan(now)
        elif (results := self._assignments.results(now)) is not None:
            header = self._header(self._assignments.plan.members, results)
            entry = Entry(header, Certificate(self.ballot))
            for session in sorted(self._calls.keys() - {self._me.session}):
                self._send(session, Commit(entry))
            self.committed(header, now)
            if is_first(self.ballot.number):
                self._credit(entry)  # as soon as it has a name: members apply it, even if this peer cannot
        elif now >= min(self._moved_at + STAND_INS * self._timeouts.part, self._began + self._timeouts.round):
            self._fail()

    def _plan(self, now: float) -> None:
        members = []
        for session, call in sorted(self._calls.items()):
            contact = self._contacts.get(session)
            assert contact is not None
            members.append(member_of(contact, call.buffers))
        if not any(one.weight for one in members) or not any(one.reachable for one in members):
            self._fail()
            return
        self._moved_at = now
        self._assignments = Assignments(
            self._session,
            self._call.instance,
            self.ballot,
            self._calls,
            tuple(members),
            {one.session for one in members if one.reachable},
            self._planner,
            self._reduction.patience,
            now,
        )

    def _fail(self) -> None:
        self.is_over = True
        for session, call in self._calls.items():
            if session != self._me.session:
                self._send(session, Refused(call.ballot, self.ballot))

    def _header(self, planned: Sequence[Member], results: Sequence[Reduced]) -> Header:
        members, parts, exclusions = averaged(planned, results)
        return Header(
            run=self._settings.run,
            step=step_of(self.ballot.number) + 1,
            kind=HeaderKind.GROUP,
            previous="",
            ballot=self.ballot,
            members=members,
            parts=parts,
            exclusions=exclusions,
        )


ROUNDS = 64  # more than a step has, of gradients or of parameters


def ballot_number(step: int, number: int, *, of_parameters: bool) -> int:
    """Of a round after a step; later rounds have higher ones."""
    return (2 * step + of_parameters) * ROUNDS + number


def step_of(number: int) -> int:
    """The step after which a round is, by the number of its ballot."""
    return number // (2 * ROUNDS)


def is_of_parameters(number: int) -> bool:
    """Whether a round averages parameters, and not gradients."""
    return number // ROUNDS % 2 == 1


def is_first(number: int) -> bool:
    """Whether it averages gradients that nothing was averaged with before, so that members are credited."""
    return number % (2 * ROUNDS) == 0


def share(members: Sequence[Member], session: str) -> int:
    """The weight at which a member goes on with the mean of its group: all shares together are the group's weight."""
    rank = next(number for number, one in enumerate(members) if one.session == session)
    whole, rest = divmod(sum(one.weight for one in members), len(members))
    return whole + (rank < rest)
