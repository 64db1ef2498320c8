"""A peer of a run in small groups: a machine with the same face as that of the log (`averaging.protocol.peer`).

One peer counts the samples of all, and says when a step begins and who takes part (`gathering`). All compute the same
groups from that (`group_keys`). After the rounds of a step each peer applies the mean that it has; every few steps
parameters are averaged in the same way, since peers drift apart. There is no log: nothing is voted for. A peer that
missed some steps goes on without them until parameters are averaged; one that missed many takes over a state.
"""

import hashlib
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from averaging.log.header import Ballot, Certificate, Entry, Head, SnapshotName
from averaging.moshpit.crediting import Crediting
from averaging.moshpit.gathering import Gathering
from averaging.moshpit.group_keys import groups_of
from averaging.moshpit.group_round import PARTIAL, WHOLE, GroupRound, is_first, step_of
from averaging.moshpit.loading import Loading
from averaging.moshpit.step_rounds import Mean, StepRounds, passed
from averaging.protocol import credentials as signed
from averaging.protocol.actions import Action, Apply, EncodeParameters, Forget, Load, TakeParameters
from averaging.protocol.buffers import Buffers
from averaging.protocol.contacts import Contacts
from averaging.protocol.credentials import Credentials, Open
from averaging.protocol.fetching import Fetching
from averaging.protocol.messages import (
    Bandwidth,
    Call,
    Chunk,
    Commit,
    Contact,
    Goodbye,
    Groups,
    Lacks,
    Log,
    Message,
    Offer,
    Piece,
    Plan,
    Reduced,
    Reducing,
    Refused,
    Report,
    Status,
    Vote,
    Want,
    WantLog,
)
from averaging.protocol.resting import Resting
from averaging.protocol.rounds.parts import Planner, equal_parts
from averaging.protocol.rounds.reducing import Reduction
from averaging.protocol.session import Session
from averaging.protocol.settings import Settings

MISSES = 2  # times `state_every`: steps without a mean of parameters after which a peer loads a state


@dataclass(frozen=True)
class GroupSettings:
    """On which all peers agree."""

    size: int  # of a group, about; a power of two
    rounds: int | None  # of a step; None: as many as a full grid needs
    state_every: int  # steps between two averages of parameters


class GroupPeer:
    """One session of one peer."""

    def __init__(
        self,
        me: Contact,
        settings: Settings,
        groups: GroupSettings,
        now: float,
        planner: Planner = equal_parts,
        credentials: Credentials = Open(),  # noqa: B008  (it has no state)
    ):
        self._planner = planner
        self.me, self._settings, self._groups, self._credentials = me, settings, groups, credentials
        self.buffers, self.resting = Buffers(), Resting(me.session)  # in small groups all compute
        self._session = Session(me, settings, credentials)
        send, act = self._session.send, self._session.act
        self._contacts = Contacts(me, credentials)
        self.fetching = Fetching(send, settings.timing)
        self.reducing = Reduction(self._session)
        self.gathering = Gathering(self._contacts, settings, self.buffers, lambda: self.head, send)
        self._crediting = Crediting(self._contacts, settings, credentials.is_guarded, send, act)
        self._loading = Loading(self._contacts, self.fetching, send, act)
        self._bandwidth: Bandwidth | None = None
        self._computes = False
        self.step: int | None = None  # of the state that this peer has, or will have when its process is done
        self._reached = -1  # step of the state that the process has
        self._missed = 0  # steps, since parameters were averaged
        self._rounds: StepRounds | None = None
        self._announced: Groups | None = None  # the step that was begun last
        self._encodes = False  # parameters, which are averaged next
        self._early: dict[str, Call] = {}  # to rounds that this peer has not come to, the newest by session
        self._convened: dict[Ballot, GroupRound] = {}  # rounds of this step and the one before that are over
        self._old: set[str] = set()  # digests that were held when the newest step was taken
        self._handlers: dict[type, Callable[[str, Any, float], None]] = {
            Report: self.gathering.on_report,
            Status: self.gathering.on_status,
            Groups: lambda sender, groups, now: self.gathering.on_groups(groups, now),
            Call: self._on_call,
            Refused: self._on_refused,
            Goodbye: self._on_goodbye,
            Plan: self._on_plan,
            Piece: self.reducing.piece,
            Reducing: self._on_reducing,
            Reduced: self._on_reduced,
            Chunk: self.fetching.on_chunk,
            Want: self.fetching.on_want,
            Lacks: self.fetching.on_lacks,
            Commit: self._on_commit,
            Vote: lambda sender, vote, now: self._crediting.on_vote(sender, vote),
            WantLog: self._on_want_log,
            Log: self._loading.on_log,
        }

    # -- what the process tells; see `averaging.protocol.peer`

    def begin(self, step: int) -> None:
        """Go on from the state of a step, which the process has."""
        self.step = self._reached = step

    def contacts(self, contacts: Iterable[Contact], now: float) -> None:
        """The peers that the DHT lists now."""
        self._contacts.listed(contacts)
        self._contacts.forget_goodbyes(passed(self._settings.run, self.step or 0, self.me.session).header)
        self.tick(now)

    def receive(self, sender: str, message: Message, now: float) -> None:
        """A message has come. Those that only peers of a log send are of no use."""
        self.gathering.heard(sender, now)
        if self._round is not None:
            self._round.heard(sender, now)
        if (handler := self._handlers.get(type(message))) is not None:
            handler(sender, message, now)
        self._after(now)

    def computes(self) -> None:
        """A batch was begun: a step that begins waits for it for a moment."""
        self._computes = True

    def computed(self, weight: int, now: float, *, samples: int = 1, loss: float = math.nan) -> None:
        """The batch has ended; so many masked tokens of it count. `loss` is the sum over them, in nats."""
        self._computes = False
        if weight and self.has_room(samples):
            self.buffers.add(weight, samples, loss)
            self.gathering.computed(now)
        self._after(now)

    def has_room(self, samples: int) -> bool:
        """Whether a batch of so many would not make this peer's offer larger than others believe."""
        return self.buffers.samples + samples <= self._settings.most_samples

    def computes_at(self, speed: float) -> None:
        """How many samples a second this peer computes: of no use here."""

    def measured(self, bandwidth: Bandwidth) -> None:
        """What this peer's line carries."""
        self._bandwidth = bandwidth

    def averaged(
        self, ballot: Ballot, chunk: int, attempt: int, digest: str, now: float, excluded: Iterable[str] = ()
    ) -> None:
        """The process has done an `Average`."""
        self.fetching.arrived(digest, now)
        self.reducing.averaged(ballot, chunk, attempt, digest, excluded)
        self._after(now)

    def cannot_average(self, ballot: Ballot, chunk: int, attempt: int) -> None:
        """No piece of an `Average` was usable."""
        self.reducing.cannot_average(ballot, chunk, attempt)

    def encoded(self, chunks: Iterable[str], now: float) -> None:
        """The process has done `EncodeParameters`."""
        self._encodes, mean = False, Mean(PARTIAL if self._missed else WHOLE, tuple(chunks))
        for digest in mean.chunks:
            self.fetching.arrived(digest, now)
        if mean.chunks:
            self._begin(mean, now)
        self._after(now)

    def snapshot_made(self, step: int, digest: str, chunks: Iterable[str], now: float) -> None:
        """The process has done `WriteSnapshot`."""
        self._loading.made(SnapshotName(step, digest), chunks, now)

    def reached(self, step: int, now: float) -> None:
        """The process has the state of a step."""
        self._reached = step
        self._after(now)

    def lost(self, session: str, now: float) -> None:
        """The connection to a peer has broken."""
        self.gathering.views.forget(session)
        if self._round is not None:
            self._round.lost(session, now)
        self._after(now)

    def moving(self, session: str, now: float) -> None:
        """A part of a message has come."""
        self.fetching.moving(session, now)
        self.reducing.moving(session, now)
        if self._round is not None:
            self._round.heard(session, now)

    def tick(self, now: float) -> None:
        """Time has passed."""
        self.fetching.tick(now)
        self.reducing.tick(now)
        self.gathering.tick(now)
        self._crediting.tick(now)
        if self._round is not None:
            self._round.tick(now)
        self._after(now)

    def leave(self) -> None:
        """Say goodbye."""
        step = -1 if self.step is None else self.step
        said = Goodbye(self.me.session, self._instance, step, None, None)
        said = replace(said, signature=self._credentials.sign(signed.farewell(said.farewell)))
        for session in self.others:
            self._session.send(session, said)
        self.fall_silent()

    def fall_silent(self) -> None:
        """Say and do nothing any more."""
        self._session.close()

    def take_actions(self) -> list[Action]:
        """What the process has to do now, in this order."""
        return self._session.take()

    # -- state

    @property
    def head(self) -> Head | None:
        """Where this peer stands. All that have taken as many steps stand at the same."""
        return None if self.step is None else Head(self.step, self._instance)

    @property
    def _instance(self) -> str:
        return hashlib.sha256(f"{self._settings.run} {self.step}".encode()).hexdigest()

    @property
    def is_behind(self) -> bool:
        """Whether this peer has to take over a state first."""
        return self.step is None or self._missed > MISSES * self._groups.state_every

    @property
    def others(self) -> Collection[str]:
        """Sessions that are listed and have not left."""
        return self._contacts.others

    def gathered(self, now: float) -> int:
        """Samples of all peers towards the next step, as far as this one knows."""
        return self.gathering.gathered(now)

    def in_round(self, now: float) -> bool:
        """Whether gradients are being averaged."""
        return self._rounds is not None and not self._rounds.of_parameters

    def carried(self, numbers: Sequence[int]) -> Mean | None:
        """The mean that a plan asks for, if these are not the numbers of buffers."""
        rounds = self._rounds
        return rounds.mean if rounds is not None and tuple(numbers) == (rounds.offered,) else None

    @property
    def _round(self) -> GroupRound | None:
        return self._rounds.round if self._rounds is not None else None

    # -- messages

    def _on_call(self, sender: str, call: Call, now: float) -> None:
        number, open_one = call.ballot.number, self._round
        if open_one is not None and call.ballot == open_one.ballot:
            open_one.on_call(sender, call, now)
        elif call.ballot in self._convened:
            self._convened[call.ballot].on_call(sender, call, now)
        elif self.step is None or self.is_behind or step_of(number) < self.step - 1 or self._is_past(number):
            self._session.send(sender, Refused(call.instance, call.ballot, call.ballot))
        else:
            self._early[sender] = call
            self.gathering.tell(sender, now)  # it waits for a peer that lives

    def _is_past(self, number: int) -> bool:
        return number < self._rounds.number if self._rounds is not None else step_of(number) < (self.step or 0)

    def _on_refused(self, sender: str, refused: Refused, now: float) -> None:
        if self._round is not None and refused.ballot == self._round.ballot and sender == refused.ballot.convener:
            self._round.refused()

    def _on_goodbye(self, sender: str, goodbye: Goodbye, now: float) -> None:
        content = signed.farewell(goodbye.farewell)
        if sender == goodbye.session and self._credentials.verify(sender, content, goodbye.signature):
            self._contacts.has_left(goodbye)
            self.lost(sender, now)

    def _on_plan(self, sender: str, plan: Plan, now: float) -> None:
        if self._rounds is not None and sender == plan.ballot.convener:
            self._rounds.on_plan(plan, self.me.session, now)

    def _on_reducing(self, sender: str, news: Reducing, now: float) -> None:
        if self._round is not None and news.ballot == self._round.ballot:
            self._round.reducing(sender, news, now)

    def _on_reduced(self, sender: str, result: Reduced, now: float) -> None:
        if self._round is not None and result.ballot == self._round.ballot:
            self._round.reduced(sender, result, now)

    def _on_commit(self, sender: str, commit: Commit, now: float) -> None:
        header = commit.entry.header
        if self._round is not None and header.ballot == self._round.ballot and sender == header.ballot.convener:
            self._round.committed(header, now)
        self._crediting.on_commit(sender, commit.entry)

    def _on_want_log(self, sender: str, want: WantLog, now: float) -> None:
        self._loading.on_want_log(sender, None if self.is_behind else self.step)

    # -- steps

    def _after(self, now: float) -> None:
        """Go on as far as this event allows."""
        to_self = self._session.to_self
        while True:
            while to_self:
                message = to_self.popleft()
                self._handlers[type(message)](self.me.session, message, now)
            if self._rounds is None:
                self._catch_up(now)
                if not self._encodes and self._reached == self.step:
                    self.gathering.announce(now)
                    if self._may_begin(now):
                        self._begin(None, now)
                        continue
            elif self._round is None:
                if not self._rounds.next_round(now):
                    self._finish(now)
                continue
            else:
                self._round.tick(now)
                if self._round.is_over:
                    self._end_round(now)
                    continue
            if not to_self:
                return

    def _may_begin(self, now: float) -> bool:
        groups, timing = self.gathering.announced, self._settings.timing
        return (
            groups is not None
            and self.step == groups.step
            and self.me.session in (*groups.members, *groups.clients)
            and not (self._computes and now < self.gathering.announced_at + timing.batch)
        )

    def _begin(self, parameters: Mean | None, now: float) -> None:
        """Begin the rounds of the step that was announced, or of the average of parameters after it."""
        if parameters is None:
            self._announced = self.gathering.announced  # a newer one may come before the parameters are averaged
        announced, me = self._announced, self.me.session
        assert announced is not None
        seed, sessions = f"{announced.step} {parameters is None}", (*announced.members, *announced.clients)
        groups = groups_of(me, sessions, self._groups.size, self._groups.rounds, seed)
        self._rounds = StepRounds(announced.step, groups, parameters, self.buffers, self._make_round, now)
        self._convened = {one: ended for one, ended in self._convened.items() if step_of(one.number) >= announced.step}

    def _make_round(self, number: int, members: Sequence[str], offers: tuple[Offer, ...], now: float) -> GroupRound:
        rounds, announced, timing = self._rounds, self._announced, self._settings.timing
        assert rounds is not None and announced is not None
        # members of a group that had to wait come later to the next one
        late = timing.pieces + rounds.slowest if number != rounds.first_number else 0.0
        made = GroupRound(
            number,
            members,
            set(members).intersection(announced.members),
            Call(self._instance, Ballot(number, ""), offers, None, self._bandwidth),
            timing.meeting + late,
            self._contacts,
            self._settings,
            self._planner,
            self.reducing,
            self.fetching,
            self._session.send,
            now,
        )
        for session in [one for one, call in self._early.items() if call.ballot.number <= number]:
            call = self._early.pop(session)
            if call.ballot == made.ballot:
                made.on_call(session, call, now)
        return made

    def _end_round(self, now: float) -> None:
        assert self._rounds is not None
        ended = self._rounds.end_round(self.me.session, now)
        self.reducing.end(ended.ballot)
        if ended.convenes:
            self._convened[ended.ballot] = ended
            if ended.header is not None and is_first(ended.ballot.number):
                self._crediting.add(Entry(ended.header, Certificate(ended.ballot)))

    def _finish(self, now: float) -> None:
        """The rounds are over: apply what came of them."""
        assert self._rounds is not None and self.step is not None
        ended, self._rounds = self._rounds, None
        if ended.of_parameters:
            if ended.averaged and ended.mean is not None:
                self._session.act(TakeParameters(ended.mean.chunks))
                self._missed = 0
            return
        # all groups are credited by what their conveners tell the coordinator
        entry = ended.entry(self._settings.run, self.me.session, credits=not self.me.is_coordinator)
        self._session.act(Apply(entry, now - ended.began))
        self.step += 1
        self._missed += not ended.averaged
        self._forget(entry.header.chunks)
        if self.step % self._groups.state_every == 0:
            self._encodes = True
            self._session.act(EncodeParameters())
        self.gathering.report(now)

    def _forget(self, newest: Collection[str]) -> None:
        """Drop what was held a step ago; members that are late may ask for the rest."""
        assert self.step is not None
        kept = self._loading.kept(self.step - MISSES * self._groups.state_every).union(newest)
        gone = (self._old & self.fetching.held) - kept
        self.fetching.forget(gone)
        self._session.act(Forget(tuple(sorted(gone))))
        self._old = set(self.fetching.held)

    # -- catching up

    def _catch_up(self, now: float) -> None:
        """Go on without some steps that the others have taken, or load a state if they were many."""
        if self._encodes:
            return
        if self.is_behind:
            if (found := self._loading.found()) is not None:
                self._load(found, now)
            else:
                self._loading.ask(now)
            return
        assert self.step is not None
        newest = self.gathering.newest(now)
        if newest > self.step:
            self._missed += newest - self.step
            if not self.is_behind:
                for step in range(self.step + 1, newest + 1):
                    self._session.act(Apply(passed(self._settings.run, step, self.me.session)))
                self.step = newest
                self.gathering.report(now)

    def _load(self, snapshot: SnapshotName, now: float) -> None:
        """Take over a state, as that of the step at which the others are by now: parameters are averaged soon."""
        self.step = max(snapshot.step, self.gathering.newest(now))
        self._missed = min(self.step - snapshot.step, self._groups.state_every)
        self._session.act(Load((passed(self._settings.run, self.step, self.me.session),), snapshot.digest))
        self.buffers.drop()
        self._loading.stop()
        self.gathering.report(now)
