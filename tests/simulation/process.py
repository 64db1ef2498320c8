"""A process around a protocol machine: it has a state, chunks, perhaps a disk, and it may die between any two actions.

Updates are symbols here: a chunk names the batches that went into it. See `state.py` for states.
"""

import math
from collections import defaultdict, deque
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from averaging.log.chain import Chain
from averaging.log.entry_file import Record
from averaging.log.header import Entry, Gap, Header, HeaderKind, SnapshotName
from averaging.protocol.actions import (
    Action,
    Adopt,
    Apply,
    Average,
    Compare,
    Credit,
    Forget,
    Load,
    Rejoin,
    SaveProposal,
    SaveWaited,
    Send,
)
from averaging.protocol.messages import Accepted, Chunk, Commit, Contact, Message, Piece, Plan, Propose
from averaging.protocol.peer import LogPeer
from tests.simulation.disk import Disk
from tests.simulation.ledger import Ledger
from tests.simulation.oracle import Oracle, loss_of
from tests.simulation.signatures import Credentials
from tests.simulation.state import State, digest_of
from tests.simulation.world import World

WITH_PAYLOAD = (Chunk, Piece)
TICK = 0.5
BATCH = 1.0  # seconds


class Process:
    """One session of one peer; a restart makes another process."""

    def __init__(self, world: World, oracle: Oracle, contact: Contact, speed: int, disk: Disk | None = None):
        self.world, self.oracle, self.speed, self.disk = world, oracle, speed, disk
        self.credentials = Credentials(world.signatures, contact)
        self.contact = contact = self.credentials.introduced(contact)
        self.session = contact.session
        self.contents: dict[str, Any] = {}  # by digest
        self.pieces: dict[tuple[Any, ...], Any] = {}
        self._batches: defaultdict[int, list[Any]] = defaultdict(list)  # gradients, by number of the buffer
        self.state: State | None = None
        self.ledger = Ledger()
        self.is_alive, self.died_at = True, math.inf
        self.dies_in: int | None = None  # actions until it dies
        self.computes = True
        self.deaf_until = 0.0  # what comes before is lost
        self.lag = 0.0  # seconds by which what it sends is late
        self.is_replaced = False  # by the next process of the same person
        self.hears: Callable[[str, Message], bool] | None = None  # of a liar; whether it has answered
        self._frozen_until = 0.0
        self._waiting: deque[tuple[str, Message, Any]] = deque()
        self._unsaved: list[Record] = []
        self._names: tuple[list[SnapshotName], int] = [], 0  # snapshots, and the oldest step that a restart needs
        self._hangs_until = -math.inf  # whatever is not done in the event loop
        self.aside: deque[Action] = deque()  # that it has to do then
        self._contacts: list[Contact] = []  # that the machine knows of
        self.machine = self._new_machine()
        world.processes[self.session] = self
        world.list_contact(contact)
        self._resume_from_disk()
        world.after(TICK * world.random.random(), self._tick)
        if speed:
            world.after(BATCH * (1 + world.random.random()), self._begin_batch)

    def _new_machine(self, held: Collection[str] = ()) -> LogPeer:
        world = self.world
        machine = LogPeer(self.contact, world.settings, self.credentials, world.now, held, world.planner)
        machine.session.speed = self.speed
        machine.reached(-1, world.now)
        return machine

    # -- life and death

    @property
    def is_frozen(self) -> bool:
        """Whether it stands still."""
        return self.world.now < self._frozen_until

    def die(self) -> None:
        """End without another word."""
        self.is_alive, self.died_at = False, self.world.now
        self.world.has_died()
        self.world.note(f"dies {self.session}")

    def freeze(self, seconds: float) -> None:
        """Stand still: what comes waits."""
        if not self.is_alive:
            return
        self._frozen_until = self.world.now + seconds
        self.world.note(f"freezes {self.session} {seconds}")
        self.world.after(seconds, self._thaw)

    def thaw_now(self) -> None:
        """Go on, if it stands still."""
        self._frozen_until = self.world.now
        self._thaw()

    def _thaw(self) -> None:
        while self._waiting and self.is_alive and not self.is_frozen:
            self.receive(*self._waiting.popleft())

    def leave(self) -> None:
        """Say goodbye and end."""
        self.world.note(f"leaves {self.session}")
        self.machine.leave()
        self.oracle.said_goodbye(self.session)
        self._carry_out()
        if self.is_alive:
            self.die()
        self.world.unlist(self.session)

    # -- events

    def receive(self, sender: str, message: Message, payload: Any) -> None:
        """A message has come; the transport has checked that a chunk has the digest that it is sent under."""
        world = self.world
        if world.now < self._frozen_until:
            self._waiting.append((sender, message, payload))
            return
        world.note(f"{sender} {self.session} {type(message).__name__}")
        if isinstance(message, Chunk):
            self.contents[message.digest] = payload
        elif isinstance(message, Piece):
            self.pieces[sender, message.ballot, message.chunk, message.attempt] = payload
        if self.hears is not None and self.hears(sender, message):
            return
        self.machine.receive(sender, message, world.now)
        if isinstance(message, Propose):
            self.oracle.check_belief(self)
        self._carry_out()

    def _tick(self) -> None:
        if not self.is_alive:
            return
        world = self.world
        if world.now >= self._frozen_until:
            contacts = world.contacts()
            if contacts is self._contacts:
                self.machine.tick(world.now)
            else:
                self._contacts = contacts
                self.machine.contacts(contacts, world.now)
            self._carry_out()
            self.oracle.check_bounds(self)
        world.after(TICK, self._tick)

    def _begin_batch(self) -> None:
        if not self.is_alive:
            return
        target = self.world.settings.target_samples
        if (
            self.computes
            and not self.is_frozen
            and not self.machine.is_behind
            and not self.machine.resting.rests
            and self.machine.buffers.samples < target
        ):
            self.machine.computes()
            self.world.after(BATCH, self._end_batch)
        else:
            self.world.after(BATCH, self._begin_batch)

    def _end_batch(self) -> None:
        if not self.is_alive:
            return
        if self.is_frozen:
            self.world.after(TICK, self._end_batch)
            return
        if self.machine.is_behind:
            self.machine.computed(0, self.world.now)
        else:
            weight = max(1, int(self.speed * (0.5 + self.world.random.random())))
            batch = self.oracle.new_batch(self.session, weight)
            if self.machine.buffers.has_room(weight):
                self._batches[self.machine.buffers.open_number].append(batch)
            self.machine.computed(weight, self.world.now, samples=weight, loss=weight * loss_of(batch))
        self._carry_out()
        self._begin_batch()

    # -- actions

    def _carry_out(self) -> None:
        take_actions = self.machine.take_actions
        while actions := take_actions():
            for action in actions:
                if not self.is_alive:
                    return
                if (self._hangs or self.aside) and not isinstance(action, Send):
                    self._put_aside(action)
                else:
                    self._do(action)
                if self.dies_in is not None:
                    self.dies_in -= 1
                    if self.dies_in <= 0 and self.is_alive:
                        self.die()
                        return

    def _do(self, action: Action) -> None:
        match action:
            case Send(to, message):
                payload = self._payload(message) if isinstance(message, WITH_PAYLOAD) else None
                self.world.send(self, to, message, payload)
                if isinstance(message, Commit):
                    self.oracle.check_committed(message.entry)
            case Average():
                self._average(action)
            case SaveProposal(accepted):
                self._save_proposal(accepted)
            case SaveWaited(instance, seconds):
                assert self.disk is not None
                self.disk.waited = instance, seconds
            case Forget(digests):
                for digest in digests:
                    if not self.machine.fetching.holds([digest]):
                        self.contents.pop(digest, None)
            case Rejoin(log):
                self._rejoin(log)
            case _:
                self._change_state(action)

    def _change_state(self, action: Action) -> None:
        match action:
            case Apply(entry):
                self._apply(entry)
            case Load():
                self._load(action)
            case Compare(other, own, before):
                one, mine, _ = (self.contents[name.digest] for name in (other, own, before))
                self.machine.adopting.compared(other, is_near=one.exact == mine.exact)
            case Adopt(snapshot, following):
                self._adopt(snapshot, following)
            case Credit(entries, gaps):
                self._credit(entries, gaps)

    def _payload(self, message: Message) -> Any:
        if isinstance(message, Chunk):
            return self.contents[message.digest]
        assert self.machine.reducing.plan is not None
        return self._own_piece(self.machine.reducing.plan)

    def _own_piece(self, plan: Plan) -> tuple[Any, ...]:
        numbers = plan.buffers_of(self.session)
        return tuple(batch for number in numbers for batch in self.batches_in(number))

    def batches_in(self, number: int) -> list[Any]:
        """The gradients in a closed buffer; none if a header has taken it."""
        return self._batches[number] if number in self.machine.buffers.closed else []

    def _average(self, action: Average) -> None:
        ballot = action.plan.ballot
        pieces = tuple(
            (
                sender,
                self._own_piece(action.plan)
                if sender == self.session
                else self.pieces[sender, ballot, action.chunk, action.attempt],
            )
            for sender in action.senders
        )
        content = (action.plan.instance, action.chunk, pieces)
        digest = digest_of(content)
        self.contents[digest] = content
        self.machine.averaged(ballot, action.chunk, action.attempt, digest, self.world.now)

    def update_of(self, header: Header) -> tuple[Any, ...]:
        """The content of an update, in the order of the vector."""
        return tuple(self.contents[digest] for digest in header.chunks)

    def _after(self, state: State, header: Header) -> State:
        if header.kind is HeaderKind.ROLLBACK:
            assert header.snapshot is not None
            loaded: State = self.contents[header.snapshot.digest]
            return loaded
        drifts = self.contact.user in self.world.other_bits
        after = state.stepped(self.update_of(header), drifts=drifts) if header.parts else state
        return self.rebase(after) if header.step % self.world.settings.snapshot_every == 0 else after

    def rebase(self, state: State) -> State:
        """What every peer does at a snapshot step."""
        return state.rebased()

    def _apply(self, entry: Entry) -> None:
        assert self.state is not None
        header = entry.header
        self.state = self._after(self.state, header)
        self.pieces = {key: piece for key, piece in self.pieces.items() if key[1] > entry.certificate.ballot}
        self.oracle.applied(self, entry)
        if header.kind is HeaderKind.ROLLBACK:
            assert header.snapshot is not None
            held = {header.snapshot, *self.machine.log.snapshots}
            self._names = [one for one in (*self._names[0], header.snapshot) if one in held], self._names[1]
        elif header.step % self.world.settings.snapshot_every == 0:
            self._make_snapshot(header.step)
        if self.disk is not None:
            self._unsaved.append(Record(entry, is_applied=True))
            self._write_down()
            if not self._unsaved:
                self.oracle.check_ledger(self, header)
        self.machine.reached(header.step, self.world.now)

    def _make_snapshot(self, step: int) -> None:
        assert self.state is not None
        content = self.state.rebased()
        digest = digest_of(content)
        self.contents[digest] = content
        self.machine.snapshot_made(step, digest, (), self.world.now)
        self._name_snapshots()

    def _name_snapshots(self) -> None:
        assert self.machine.log.chain is not None
        self._names = list(self.machine.log.snapshots), self.machine.log.chain.oldest.step

    def _load(self, load: Load) -> None:
        state: State = self.contents[load.snapshot]
        self.state = state
        *before, entry = load.entries
        self.world.note(f"loads {self.session} {entry.header.step}")
        self.oracle.loaded(self, entry)
        if self.disk is not None:
            self._unsaved += [Record(one, is_applied=False) for one in before]
            self._unsaved.append(Record(entry, is_applied=True, gaps=load.gaps))
            self._names = [SnapshotName(entry.header.step, load.snapshot)], load.entries[0].header.step
            self._write_down()
        self.machine.reached(entry.header.step, self.world.now)

    def _adopt(self, snapshot: SnapshotName, following: Collection[Entry]) -> None:
        state: State = self.contents[snapshot.digest]
        for entry in following:
            state = self._after(state, entry.header)
        assert self.state is not None and state.exact == self.state.exact
        self.state = state
        self.oracle.adopted += 1
        self._name_snapshots()
        if self.disk is not None:
            self._write_down()

    def _credit(self, entries: Collection[Entry], gaps: tuple[Gap, ...] | None) -> None:
        self._unsaved += [Record(entry, is_applied=False, gaps=gaps, is_proven=False) for entry in entries]
        self._write_down()

    def _rejoin(self, log: Any) -> None:
        self.oracle.rejoins(self, log)
        self.die()
        self.is_replaced = True
        self.world.unlist(self.session)
        again = restarted(self)
        if self.disk is not None:
            again.disk = replace(self.disk, log=list(self.disk.log), is_full=False)
            left = [one for one in self.aside if isinstance(one, Apply)]  # its chain has lost
            again._unsaved = [*self._unsaved, *(Record(one.entry, False, is_proven=False) for one in left)]
        again.contents, again._names = self.contents, self._names
        again.ledger = self.ledger
        again.machine = again._new_machine(self.contents)
        again.machine.rejoin(log, self.machine, self.world.now)
        again._carry_out()

    # -- the disk of a coordinator

    def _save_proposal(self, accepted: Accepted) -> None:
        assert self.disk is not None
        if self.disk.is_full:
            self.machine.convening.saving_failed()
            return
        self._write_proposal(accepted)

        def saved() -> None:
            if self.is_alive:
                self.machine.proposal_saved(accepted.ballot, self.world.now)
                self._carry_out()

        self.world.after(0.02, saved)

    def _write_proposal(self, accepted: Accepted) -> None:
        assert self.disk is not None
        self.disk.accepted = accepted
        for digest in accepted.header.needed:
            self.disk.contents[digest] = self.contents[digest]

    def _write_down(self) -> None:
        """What it knows, and into the ledger what it has written down."""
        disk = self.disk
        assert disk is not None
        if disk.is_full:
            return
        for record in self._unsaved:
            self.ledger.enter(record.entry.header)
        disk.log, self._unsaved = [*disk.log, *self._unsaved], []
        disk.contents = dict(self.contents)
        disk.snapshots, disk.since = list(self._names[0]), self._names[1]

    def disk_has_room(self) -> None:
        """The disk takes writes again."""
        assert self.disk is not None
        if self._hangs or self.aside:
            self.world.after(TICK, self.disk_has_room)
            return
        self.disk.is_full = False
        if self.is_alive and self.machine.log.chain is not None:
            self._write_down()
            self.machine.convening.saving_works()

    def disk_hangs(self, seconds: float) -> None:
        """Nothing that it is asked for from now on returns before a time: no save, no step, no mean."""
        self._hangs_until = max(self._hangs_until, self.world.now + seconds)
        self.world.note(f"hangs {self.session} {seconds}")
        self.world.after(seconds, self._disk_goes_on)

    @property
    def _hangs(self) -> bool:
        return self.world.now < self._hangs_until

    def _put_aside(self, action: Action) -> None:
        if isinstance(action, SaveProposal) and not self.aside and self.world.random.random() < 0.5:
            self._write_proposal(action.accepted)  # it is written, and the answer does not come
        self.aside.append(action)

    def disk_goes_on_now(self) -> None:
        """It hangs no longer."""
        self._hangs_until = self.world.now
        self._disk_goes_on()

    def _disk_goes_on(self) -> None:
        """Do all that has waited, in its order."""
        if self._hangs:
            return
        if self.is_frozen:
            self.world.after(TICK, self._disk_goes_on)
            return
        while self.aside and self.is_alive:
            self._do(self.aside.popleft())
        self._carry_out()

    def _resume_from_disk(self) -> None:
        disk = self.disk
        if disk is None or not disk.log:
            return
        self.contents = dict(disk.contents)
        for record in disk.log:
            self.ledger.enter(record.entry.header)
        entries, base = disk.found()
        tip = entries[-1].header
        state: State = self.contents[base.digest]
        for entry in entries:
            if entry.header.step > base.step:
                state = self._after(state, entry.header)
        self.state = state
        self.oracle.check_state(tip, state)
        self.machine = self._new_machine(self.contents)
        gaps = next((one.gaps for one in reversed(disk.log) if one.gaps is not None), ())
        waited = disk.waited[1] if disk.waited[0] == tip.digest else 0.0
        held = [one for one in disk.snapshots if one.step <= base.step and one.digest in disk.contents]
        self.machine.start(Chain(entries), held, disk.accepted, gaps, waited)
        self._names = held, disk.since
        self.machine.reached(tip.step, self.world.now)


def restarted(process: Process, disk: Disk | None = None, keeps_session: bool = False) -> Process:
    """The same person's next process, with what is on the disk."""
    old = process.contact
    session = old.session if keeps_session else next_session(process.world, old.user)
    contact = Contact(session, old.user, old.reachable, old.is_coordinator)
    return Process(process.world, process.oracle, contact, process.speed, disk)


def next_session(world: World, user: str) -> str:
    """A session name that nobody has had."""
    count = sum(session.rsplit(".", 1)[0] == user for session in world.processes)
    return f"{user}.{count:03d}"
