"""The step that a peer takes part in now, if there is one: its rounds, and which of them a message is for."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from averaging.log.header import Ballot, Certificate, Entry
from averaging.moshpit.crediting import Crediting
from averaging.moshpit.gathering import Gathering
from averaging.moshpit.group_keys import GroupSettings, groups_of
from averaging.moshpit.group_round import GroupRound, ballot_number, is_first, step_of
from averaging.moshpit.step_rounds import Mean, StepRounds
from averaging.protocol.buffers import Buffers
from averaging.protocol.contacts import Contacts
from averaging.protocol.fetching import Fetching
from averaging.protocol.messages import Bandwidth, Call, Commit, Groups, Offer, Plan, Reduced, Reducing, Refused
from averaging.protocol.rounds.parts import Planner
from averaging.protocol.rounds.reducing import Reduction
from averaging.protocol.session import Session


class OpenStep:
    """Of one peer. `step`: that of its state; None: it is behind."""

    def __init__(
        self,
        session: Session,
        contacts: Contacts,
        groups: GroupSettings,
        gathering: Gathering,
        buffers: Buffers,
        reduction: Reduction,
        fetching: Fetching,
        crediting: Crediting,
        planner: Planner,
        step: Callable[[], int | None],
    ):
        self._session, self._contacts, self._groups = session, contacts, groups
        self._gathering, self._buffers, self._step = gathering, buffers, step
        self._reduction, self._fetching, self._crediting, self._planner = reduction, fetching, crediting, planner
        self.bandwidth: Bandwidth | None = None
        self.rounds: StepRounds | None = None
        self._announced: Groups | None = None  # the step that was begun last
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
        self._announced = announced = announced or self._announced
        assert announced is not None
        me, sessions = self._session.me.session, (*announced.members, *announced.clients)
        seed = f"{announced.step} {parameters is None}"
        groups = groups_of(me, sessions, self._groups.size, self._groups.rounds, seed)

        def make_round(number: int, members: Sequence[str], offers: tuple[Offer, ...], now: float) -> GroupRound:
            return self._make_round(announced, Call(instance, Ballot(number, ""), offers, None), members, now)

        self.rounds = StepRounds(announced.step, groups, parameters, self._buffers, make_round, now)
        self._convened = {one: ended for one, ended in self._convened.items() if step_of(one.number) >= announced.step}

    def _make_round(self, announced: Groups, call: Call, members: Sequence[str], now: float) -> GroupRound:
        rounds, timing, number = self.rounds, self._session.timing, call.ballot.number
        assert rounds is not None
        # members of a group that had to wait come later to the next one
        late = timing.pieces + rounds.slowest if number != rounds.first_number else 0.0
        made = GroupRound(
            members,
            set(members).intersection(announced.members),
            replace(call, bandwidth=self.bandwidth),
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
            if rounds.round is None and not rounds.next_round(now):
                self.rounds = None
                return rounds
            assert rounds.round is not None
            rounds.round.tick(now)
            if not rounds.round.is_over:
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
        """Any word of a peer."""
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
            self._gathering.tell(sender, now)  # it waits for a peer that lives

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
