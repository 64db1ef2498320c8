"""The step that a peer takes part in now, if there is one: its rounds, and which of them a message is for."""

from collections.abc import Callable, Sequence

from averaging.log.header import Ballot, Certificate, Entry
from averaging.moshpit.crediting import Crediting
from averaging.moshpit.group_keys import GroupSettings, groups_of
from averaging.moshpit.group_progress import GroupProgress
from averaging.moshpit.group_round import GroupRound, ballot_number, is_first, step_of
from averaging.moshpit.step_rounds import Mean, StepRounds
from averaging.protocol.buffers import Buffers
from averaging.protocol.contacts import Contacts
from averaging.protocol.fetching import Fetching
from averaging.protocol.messages import Call, Commit, Groups, Plan, Reduced, Reducing, Refused
from averaging.protocol.rounds.parts import Planner
from averaging.protocol.rounds.reducing import Reduction
from averaging.protocol.session import Session


class OpenStep:
    """Takes part in the rounds of one step at a time. `step`: that of this peer's state; None: it is behind."""

    def __init__(
        self,
        session: Session,
        contacts: Contacts,
        groups: GroupSettings,
        progress: GroupProgress,
        buffers: Buffers,
        reduction: Reduction,
        fetching: Fetching,
        crediting: Crediting,
        planner: Planner,
        step: Callable[[], int | None],
    ):
        self._session, self._contacts, self._groups = session, contacts, groups
        self._progress, self._buffers, self._step = progress, buffers, step
        self._reduction, self._fetching, self._crediting, self._planner = reduction, fetching, crediting, planner
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
        groups = groups_of(me, sessions, self._groups.size, self._groups.rounds, seed)
        self.rounds = StepRounds(announced.step, groups, parameters, self._buffers, now)
        self._convened = {one: ended for one, ended in self._convened.items() if step_of(one.number) >= announced.step}

    def _begin_round(self, rounds: StepRounds, now: float) -> GroupRound | None:
        """The next one; None: there is none."""
        assert self._announced is not None
        following, timing = rounds.next_round(), self._session.timing
        if following is None:
            return None
        number, members, offers = following
        # members of a group that had to wait come later to the next one
        late = timing.pieces + rounds.slowest if number != rounds.first_number else 0.0
        rounds.round = made = GroupRound(
            members,
            set(members).intersection(self._announced.members),
            Call(self._instance, Ballot(number, ""), offers, None, self._session.bandwidth),
            timing.meeting + late,
            self._session,
            self._contacts,
            self._planner,
            self._reduction,
            self._fetching,
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
            self._reduction.end(ended.ballot)
            if ended.convenes:
                self._convened[ended.ballot] = ended
                if ended.header is not None and is_first(ended.ballot.number):
                    self._crediting.add(Entry(ended.header, Certificate(ended.ballot)))
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
            self._session.send(sender, Refused(call.instance, call.ballot, call.ballot))
        else:
            self._early[sender] = call
            self._progress.tell(sender, now)  # it waits for a peer that lives

    def on_refused(self, sender: str, refused: Refused, now: float) -> None:
        """A convener goes on without this peer."""
        if sender == refused.ballot.convener and (refusing := self._round_of(refused.ballot)) is not None:
            refusing.refused()

    def on_plan(self, sender: str, plan: Plan, now: float) -> None:
        """A convener knows all members."""
        if self.rounds is not None and sender == plan.ballot.convener:
            self.rounds.on_plan(plan, self._session.me.session, now)

    def on_reducing(self, sender: str, news: Reducing, now: float) -> None:
        """A reducer is at work."""
        if (led := self._round_of(news.ballot)) is not None:
            led.reducing(sender, news, now)

    def on_reduced(self, sender: str, result: Reduced, now: float) -> None:
        """A reducer has done its part."""
        if (led := self._round_of(result.ballot)) is not None:
            led.reduced(sender, result, now)

    def on_commit(self, sender: str, commit: Commit, now: float) -> None:
        """A group has averaged: the one that this peer is in, or one that it credits as the coordinator."""
        header = commit.entry.header
        if sender == header.ballot.convener and (open_one := self._round_of(header.ballot)) is not None:
            open_one.committed(header, now)
        self._crediting.on_commit(sender, commit)
