"""A peer of a run in small groups: a machine with the same interface as that of the log (`averaging.protocol.peer`).

One peer counts the samples of all, and says when a step begins and who takes part (`group_progress`). All compute the
same groups from that (`group_keys`). After the rounds of a step (`group_step`) each peer applies the mean that it has;
every few steps parameters are averaged in the same way, since peers drift apart. There is no log: nothing is voted for.
A peer that missed some steps goes on without them until parameters are averaged; one that missed many loads a state.
"""

import hashlib
import math
from collections.abc import Callable, Collection, Iterable
from typing import Any

from averaging.log.header import Entry, Farewell, Head, SnapshotName
from averaging.moshpit.crediting import Crediting
from averaging.moshpit.group_keys import GroupSettings
from averaging.moshpit.group_progress import GroupProgress
from averaging.moshpit.group_round import PARTIAL, WHOLE, Components
from averaging.moshpit.group_step import GroupStep, Mean, StepRounds, passed
from averaging.moshpit.loading import Loading
from averaging.protocol import messages
from averaging.protocol.actions import Action, Apply, Average, EncodeParameters, Loud, TakeParameters
from averaging.protocol.buffers import Buffers
from averaging.protocol.contacts import Contacts
from averaging.protocol.credentials import Credentials, is_farewell, signed_farewell
from averaging.protocol.fetching import Fetching
from averaging.protocol.messages import Contact, Message
from averaging.protocol.resting import Resting
from averaging.protocol.rounds.parts import Planner, equal_parts
from averaging.protocol.rounds.reducing import Reduction
from averaging.protocol.rounds.reliability import Patience
from averaging.protocol.session import Session
from averaging.protocol.settings import Settings

MISSES = 2  # times `state_every`: steps without a mean of parameters after which a peer loads a state


class GroupPeer:
    """One session of one peer."""

    def __init__(
        self,
        me: Contact,
        settings: Settings,
        credentials: Credentials,
        groups: GroupSettings,
        now: float,
        planner: Planner = equal_parts,
    ):
        self.me, self._settings, self._groups = me, settings, groups
        self.buffers, self.resting = Buffers(settings.most_samples), Resting(me.session)  # in small groups all compute
        self.session = session = Session(me, settings, credentials)
        self._contacts = contacts = Contacts(me, credentials)
        self.fetching, self.reducing = Fetching(session.send, settings.timeouts), Reduction(session, Patience())
        self.progress = GroupProgress(contacts, settings, self.buffers, lambda: self.head, session.send)
        self._crediting = crediting = Crediting(session, contacts)

        def step() -> int | None:
            return None if self.is_behind else self.step

        self._loading = Loading(session, contacts, self.fetching, step)
        shared = Components(
            session, contacts, groups, self.buffers, self.reducing, self.fetching, planner, crediting.add
        )
        self.group_step = GroupStep(shared, self.progress, crediting, step)
        self._computes = False
        self.step: int | None = None  # of the state that this peer has, or will have when its process is done
        self._reached = -1  # step of the state that the process has
        self._missed = 0  # steps, since parameters were averaged
        self._ahead = 0  # steps by which the others are ahead, if the peer that counts is right
        self._encodes = False  # parameters, which are averaged next
        self._handlers: dict[type, Callable[[str, Any, float], None]] = {
            messages.Report: self.progress.on_report,
            messages.Status: self.progress.on_status,
            messages.Groups: self.progress.on_groups,
            messages.Call: self.group_step.on_call,
            messages.Refused: self.group_step.on_refused,
            messages.Goodbye: self._on_goodbye,
            messages.Plan: self.group_step.on_plan,
            messages.Piece: self.reducing.piece,
            messages.Reducing: self.group_step.on_news,
            messages.Reduced: self.group_step.on_news,
            messages.Chunk: self.fetching.on_chunk,
            messages.Want: self.fetching.on_want,
            messages.Lacks: self.fetching.on_lacks,
            messages.Commit: self.group_step.on_commit,
            messages.Vote: self._crediting.on_vote,
            messages.WantLog: self._loading.on_want_log,
            messages.Log: self._loading.on_log,
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
        self.progress.heard(sender, now)
        self.group_step.heard(sender, now)
        self.reducing.patience.heard(now)
        if (handler := self._handlers.get(type(message))) is not None:
            handler(sender, message, now)
        self._after(now)

    def computes(self) -> None:
        """A batch was begun: a step that begins waits for it for a moment."""
        self._computes = True

    def computed(self, weight: int, now: float, *, samples: int = 1, loss: float = math.nan) -> None:
        """The batch has ended; so many masked tokens of it count. `loss` is the sum over them, in nats."""
        self._computes = False
        if weight and self.buffers.has_room(samples):
            self.buffers.add(weight, samples, loss)
            self.progress.computed(now)
        self._after(now)

    def averaged(self, done: Average, digest: str, now: float, excluded: Iterable[str] = (), loud: Loud = ()) -> None:
        """The process has done an `Average`."""
        self.fetching.arrived(digest, now)
        self.reducing.averaged(done, digest, excluded, loud)
        self._after(now)

    def encoded(self, chunks: Iterable[str], now: float) -> None:
        """The process has done `EncodeParameters`."""
        self._encodes, mean = False, Mean(PARTIAL if self._missed else WHOLE, tuple(chunks))
        for digest in mean.chunks:
            self.fetching.arrived(digest, now)
        if mean.chunks:
            self.group_step.begin(None, mean, self._instance, now)
        self._after(now)

    def credited(self, entries: Iterable[Entry]) -> None:
        """The process has done a `Credit`."""
        self._crediting.credited(entries)

    def snapshot_made(self, step: int, digest: str, chunks: Iterable[str], now: float) -> None:
        """The process has done `WriteSnapshot`."""
        self._loading.made(SnapshotName(step, digest), chunks, now)

    def reached(self, step: int, now: float) -> None:
        """The process has the state of a step."""
        self._reached = step
        if self._loading.is_ordered:
            self._has_loaded(step, now)
        self._after(now)

    def cannot_load(self, snapshot: str, now: float) -> str:
        """A snapshot is of no use; returns which session has given it, if it was wanted. Another one is asked."""
        source = self._loading.useless(snapshot)
        self._after(now)
        return source

    def lost(self, session: str, now: float) -> None:
        """The connection to a peer has broken."""
        self.progress.views.forget(session)
        self.group_step.lost(session, now)
        self._after(now)

    def moving(self, session: str, now: float) -> None:
        """A part of a message has come."""
        self.fetching.moving(session, now)
        self.reducing.moving(session, now)
        self.group_step.heard(session, now)
        self.reducing.patience.heard(now)

    def tick(self, now: float) -> None:
        """Time has passed."""
        self.fetching.tick(now)
        self.reducing.tick(now)
        self.progress.tick(now)
        self._crediting.tick(now)
        self._after(now)

    def leave(self) -> None:
        """Say goodbye."""
        step = -1 if self.step is None else self.step
        farewell = Farewell(self.me.session, self._instance, step, None)
        said = messages.Goodbye(signed_farewell(farewell, self.session.credentials), None)
        for session in self.others:
            self.session.send(session, said)
        self.session.close()

    def take_actions(self) -> list[Action]:
        """What the process has to do now, in this order."""
        return self.session.take()

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
        return self.step is None or self._missed + self._ahead > self._most_missed

    @property
    def _most_missed(self) -> int:
        """Steps without a mean of parameters with which a peer goes on."""
        return MISSES * self._groups.state_every

    @property
    def others(self) -> Collection[str]:
        """Sessions that are listed and have not left."""
        return self._contacts.others

    def in_round(self, now: float) -> bool:
        """Whether gradients are being averaged."""
        return self.group_step.rounds is not None and not self.group_step.rounds.of_parameters

    # -- messages that concern more than one part

    def _on_goodbye(self, sender: str, goodbye: messages.Goodbye, now: float) -> None:
        if sender == goodbye.farewell.session and is_farewell(goodbye.farewell, self.session.credentials):
            self._contacts.has_left(goodbye)
            self.lost(sender, now)

    # -- steps

    def _after(self, now: float) -> None:
        """Go on as far as this event allows."""
        to_self = self.session.to_self
        while True:
            while to_self:
                message = to_self.popleft()
                self._handlers[type(message)](self.me.session, message, now)
            if self.group_step.rounds is None:
                self._catch_up(now)
                if self._is_idle or self._loading.is_ordered:
                    self.progress.announce(now)
                groups = self.progress.begins(now, is_computing=self._computes)
                if groups is not None and self._is_idle and not self._loading.is_ordered:
                    self.group_step.begin(groups, None, self._instance, now)
                    continue
            elif (ended := self.group_step.go_on(now)) is not None:
                self._finish(ended, now)
                continue
            if not to_self:
                return

    @property
    def _is_idle(self) -> bool:
        """Whether the process has done all that it was asked for."""
        return not self._encodes and self.step in (None, self._reached)

    def _finish(self, ended: StepRounds, now: float) -> None:
        """The rounds are over: apply what came of them."""
        assert self.step is not None
        if ended.of_parameters:
            if ended.averaged and ended.mean is not None:
                self.session.act(TakeParameters(ended.mean.chunks))
                self._missed = 0
            return
        # all groups are credited by what their conveners tell the coordinator
        entry = ended.entry(self._settings.run, self.me.session, credits=not self.me.is_coordinator)
        self.session.act(Apply(entry, now - ended.began))
        self.step += 1
        self._missed += not ended.averaged
        self._loading.forget_old(self.step - MISSES * self._groups.state_every, entry.header.chunks)
        if self.step % self._groups.state_every == 0:
            self._encodes = True
            self.session.act(EncodeParameters())
        self.progress.report(now)

    def _catch_up(self, now: float) -> None:
        """Go on without some steps that the others have taken, or load a state if they were many."""
        if self._encodes or self._loading.is_ordered:
            return
        newest = self.progress.newest(now)
        self._ahead = 0 if self.step is None else max(0, newest - self.step)
        if self.step is not None and self._ahead and not self.is_behind:
            self._missed += self._ahead
            for step in range(self.step + 1, newest + 1):
                self.session.act(Apply(passed(self._settings.run, step, self.me.session)))
            self.step, self._ahead = newest, 0
            self.progress.report(now)
        elif self.is_behind and self._is_idle:
            found = self._loading.found()
            if found is None:
                self._loading.ask(now)
            elif newest >= 0 and found.step > newest + self._most_missed:
                self._loading.useless(found.digest)
            elif newest >= 0:  # else this peer first waits for word of the one that counts
                self._loading.order(passed(self._settings.run, max(found.step, newest), self.me.session), found)

    def _has_loaded(self, step: int, now: float) -> None:
        """The process has a state, as that of the step at which the others were: parameters are averaged soon."""
        snapshot = self._loading.found()
        assert snapshot is not None
        self.step, self._missed, self._ahead = step, min(step - snapshot.step, self._groups.state_every), 0
        self.buffers.drop()
        self._loading.stop()
        self.progress.report(now)
