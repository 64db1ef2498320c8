"""The step that a peer takes part in now, if there is one: what it brings to each round, and what comes of them.

A peer whose group fails goes on with what it has, as in the paper.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from averaging.log.header import Ballot, Certificate, Entry, Header, HeaderKind, Part
from averaging.moshpit.crediting import Crediting
from averaging.moshpit.group_keys import groups_of
from averaging.moshpit.group_progress import GroupProgress
from averaging.moshpit.group_round import ROUNDS, Components, GroupRound, ballot_number, is_first, share, step_of
from averaging.protocol.buffers import Buffers
from averaging.protocol.messages import Call, Commit, Groups, Offer, Plan, Reduced, Reducing, Refused

CARRIED = 2**40  # added to the number of a ballot: what stands for a mean among the numbers of buffers


@dataclass(frozen=True)
class Mean:
    """What a peer goes on with: chunks that are here, and their weight. Its pieces are made of their bytes."""

    weight: int
    chunks: tuple[str, ...]  # digests


class StepRounds:
    """What one peer brings to the rounds of a step, and has after them.

    Args:
        step: before this one.
        groups: members of this peer's group in each round.
        mean: parameters, to begin with; None: gradients are averaged.
    """

    def __init__(
        self,
        step: int,
        groups: Sequence[Sequence[str]],
        mean: Mean | None,
        buffers: Buffers,
        now: float,
    ):
        self.step, self.began, self.mean = step, now, mean
        self.of_parameters, self.averaged = mean is not None, False
        self.round: GroupRound | None = None
        self.first_number = ballot_number(step, 0, of_parameters=self.of_parameters)
        self.number = self.first_number  # of the round that is next
        self._groups, self._buffers = list(groups[:ROUNDS]), buffers
        self.offered = 0  # the number that stands for the mean in the open round
        self.slowest = 0.0  # seconds that a round of this step has taken since its plan
        self._first: Header | None = None  # of the group of the first round
        self._spent: tuple[int, ...] = ()  # buffers whose pieces have been sent

    def next_round(self) -> tuple[int, Sequence[str], tuple[Offer, ...]] | None:
        """Of the next round the number of its ballot, the members, and what this peer brings; None: there is none."""
        while self._groups:
            members, number = self._groups.pop(0), self.number
            self.number += 1
            if len(members) > 1 or is_first(number):
                return number, members, self._offers(number)
        return None

    def _offers(self, number: int) -> tuple[Offer, ...]:
        if is_first(number):
            return self._buffers.offer()
        if self.mean is not None:
            self.offered = CARRIED + number
            return (Offer(self.offered, self.mean.weight, 0, None),) if self.mean.weight else ()
        closed = self._buffers.closed  # its group has failed after it had sent its pieces
        return tuple(Offer(one, closed[one].weight, 0, None) for one in self._spent if one in closed)

    def on_plan(self, plan: Plan, me: str, now: float) -> None:
        """The convener of the open round knows all members."""
        if self.round is None or plan.ballot != self.round.ballot:
            return
        if self.round.on_plan(plan, now) and is_first(plan.ballot.number):
            self._spent = plan.buffers_of(me)

    def end_round(self, me: str, now: float) -> GroupRound:
        """Take in what came of the open round, which is over."""
        assert self.round is not None
        ended, self.round, self.offered = self.round, None, 0
        if ended.planned_at is not None:
            self.slowest = max(self.slowest, now - ended.planned_at)
        if ended.header is not None:
            self.mean, self.averaged = Mean(share(ended.header.members, me), ended.header.chunks), True
            if is_first(ended.ballot.number):
                self._first = ended.header
                # those that came too late for all chunks go into the next step
                self._spent = next(one.buffers for one in ended.header.members if one.session == me)
        return ended

    def entry(self, run: str, me: str, *, credits: bool) -> Entry:
        """What this peer applies. Its buffers that are in it, or that others have had, are gone."""
        self._buffers.remove(self._spent)
        entry = passed(run, self.step + 1, me)
        header = entry.header
        if self.averaged and self.mean is not None and self.mean.chunks:
            header = replace(header, parts=(Part(me, self.mean.chunks),))
        if self._first is not None and credits:
            header = replace(header, members=self._first.members, exclusions=self._first.exclusions)
        return replace(entry, header=header)


def passed(run: str, step: int, me: str) -> Entry:
    """A step in which a peer has averaged with no others: its state stays as it is."""
    ballot = Ballot(ballot_number(step - 1, ROUNDS - 1, of_parameters=False), me)  # pieces up to it are of no use
    return Entry(Header(run, step, HeaderKind.UPDATE, "", ballot), Certificate(ballot))


class GroupStep:
    """Takes part in the rounds of one step at a time. `step`: that of this peer's state; None: it is behind."""

    def __init__(
        self,
        components: Components,
        progress: GroupProgress,
        crediting: Crediting,
        step: Callable[[], int | None],
    ):
        self._components, self._session, self._contacts = components, components.session, components.contacts
        self._progress, self._crediting, self._step = progress, crediting, step
        self.rounds: StepRounds | None = None
        self._announced: Groups | None = None  # the step that was begun last ...
        self._instance = ""  # ... and the digest that stands for the state before it
        self._early: dict[str, Call] = {}  # to rounds that this peer has not come to, the newest by session
        self._convened: dict[Ballot, GroupRound] = {}  # rounds of this step and the one before that are over

    @property
    def round(self) -> GroupRound | None:
        """The one that is open."""
        return self.rounds.round if self.rounds is not None else None

    def _round_of(self, ballot: Ballot) -> GroupRound | None:
        return self.round if self.round is not None and self.round.ballot == ballot else None

    def carried(self, numbers: Sequence[int]) -> Mean | None:
        """The mean that a plan asks for, if these are not the numbers of buffers."""
        return self.rounds.mean if self.rounds is not None and tuple(numbers) == (self.rounds.offered,) else None

    # -- going on

    def begin(self, announced: Groups | None, parameters: Mean | None, instance: str, now: float) -> None:
        """Begin the rounds of a step that was announced, or of the average of parameters after the one before."""
        self._announced, self._instance = announced or self._announced, instance
        assert self._announced is not None
        announced = self._announced
        me, sessions = self._session.me.session, (*announced.members, *announced.clients)
        seed = f"{announced.step} {parameters is None}"
        settings = self._components.groups
        groups = groups_of(me, sessions, settings.size, settings.rounds, seed)
        self.rounds = StepRounds(announced.step, groups, parameters, self._components.buffers, now)
        self._early = {one: call for one, call in self._early.items() if one in self._contacts.others}
        self._convened = {one: ended for one, ended in self._convened.items() if step_of(one.number) >= announced.step}

    def _begin_round(self, rounds: StepRounds, now: float) -> GroupRound | None:
        """The next one; None: there is none."""
        assert self._announced is not None
        following, timeouts = rounds.next_round(), self._session.timeouts
        if following is None:
            return None
        number, members, offers = following
        # members of a group that had to wait come later to the next one
        late = timeouts.pieces + rounds.slowest if number != rounds.first_number else 0.0
        rounds.round = made = GroupRound(
            members,
            set(members).intersection(self._announced.members),
            Call(self._instance, Ballot(number, ""), offers, None, self._session.bandwidth),
            timeouts.meeting + late,
            self._components,
            now,
        )
        for session in [one for one, early in self._early.items() if early.ballot.number <= number]:
            early = self._early.pop(session)
            if early.ballot == made.ballot:
                made.on_call(session, early, now)
        return made

    def go_on(self, now: float) -> StepRounds | None:
        """Go on as far as the time allows; returns the rounds once they are over."""
        while (rounds := self.rounds) is not None:
            current = rounds.round or self._begin_round(rounds, now)
            if current is None:
                self.rounds = None
                return rounds
            current.tick(now)
            if not current.is_over:
                break
            ended = rounds.end_round(self._session.me.session, now)
            self._components.reduction.end(ended.ballot, now)
            if ended.convenes:
                self._convened[ended.ballot] = ended
        return None

    def lost(self, session: str, now: float) -> None:
        """The connection to a peer has broken."""
        if self.round is not None:
            self.round.lost(session, now)

    def heard(self, sender: str, now: float) -> None:
        """Take in that a peer has said something."""
        if self.round is not None:
            self.round.heard(sender, now)

    # -- messages

    def on_call(self, sender: str, call: Call, now: float) -> None:
        """A member is there, or asks again."""
        if (called := self._round_of(call.ballot) or self._convened.get(call.ballot)) is not None:
            called.on_call(sender, call, now)
            return
        step = self._step()
        following = self.rounds.number if self.rounds is not None else ballot_number(step or 0, 0, of_parameters=False)
        if step is None or call.ballot.number < following:
            self._session.send(sender, Refused(call.ballot, call.ballot))
        elif step_of(call.ballot.number) <= step + 1 and self._contacts.get(sender) is not None:
            self._early[sender] = replace(call, accepted=None)  # only a log has accepted headers
            self._progress.tell(sender, now)  # it waits for a peer that lives

    def on_refused(self, sender: str, refused: Refused, now: float) -> None:
        """A convener goes on without this peer."""
        if sender == refused.ballot.convener and (refusing := self._round_of(refused.ballot)) is not None:
            refusing.refused()

    def on_plan(self, sender: str, plan: Plan, now: float) -> None:
        """A convener knows all members."""
        if self.rounds is not None and sender == plan.ballot.convener:
            self.rounds.on_plan(plan, self._session.me.session, now)

    def on_news(self, sender: str, news: Reducing | Reduced, now: float) -> None:
        """A reducer is at work, or has done its part."""
        if (led := self._round_of(news.ballot)) is not None:
            led.on_news(sender, news, now)

    def on_commit(self, sender: str, commit: Commit, now: float) -> None:
        """A group has averaged: the one that this peer is in, or one that it credits as the coordinator."""
        header = commit.entry.header
        if sender == header.ballot.convener and (open_one := self._round_of(header.ballot)) is not None:
            open_one.committed(header, now)
        self._crediting.on_commit(sender, commit)
