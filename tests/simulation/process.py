"""A process around a protocol machine: it hands in what happens, and it may die between any two actions."""

import math
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from averaging.log.chain import Chain
from averaging.protocol.actions import Apply, Send
from averaging.protocol.messages import Commit, Contact, Log, Message, Propose
from averaging.protocol.peer import LogPeer
from tests.simulation.disk import Disk, Journal
from tests.simulation.exchange import Exchange
from tests.simulation.oracle import Oracle, loss_of
from tests.simulation.signatures import Credentials
from tests.simulation.state import Replay
from tests.simulation.stepping import Stepping
from tests.simulation.world import World

TICK = 0.5
BATCH = 1.0  # seconds


class Process:
    """One session of one peer; a restart makes another process."""

    def __init__(self, world: World, oracle: Oracle, contact: Contact, speed: int, disk: Disk | None = None):
        self.world, self.oracle, self.speed = world, oracle, speed
        self.credentials = Credentials(world.signatures, contact)
        self.contact = contact = self.credentials.introduced(contact)
        self.session = contact.session
        self.replay = Replay(world.settings.snapshot_every, drifts=contact.user in world.other_bits)
        self.exchange = Exchange(self.replay)
        self.journal = None if disk is None else Journal(disk)  # of a coordinator
        self.stepping = Stepping(self)
        self.is_alive, self.died_at = True, math.inf
        self.dies_in: int | None = None  # actions until it dies
        self.computes = True
        self.deaf_until = 0.0  # what comes before is lost
        self.lag = 0.0  # seconds by which what it sends is late
        self.is_replaced = False  # by the next process of the same person
        self.hears: Callable[[str, Message], bool] | None = None  # of a liar; whether it has answered
        self.says: Callable[[str, Message], bool] | None = None  # of a staller; whether to send it
        self._frozen_until = 0.0
        self._waiting: deque[tuple[str, Message, Any]] = deque()
        self._contacts: list[Contact] = []  # that the machine knows of
        self.machine = self._new_machine()
        world.processes[self.session] = self
        world.list_contact(contact)
        if disk is not None and disk.log:
            self._resume_from(disk)
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
        self.carry_out()
        if self.is_alive:
            self.die()
        self.world.unlist(self.session)

    def rejoin(self, log: Log) -> None:
        """Leave its chain for that of a log, as another session of the same person."""
        self.oracle.rejoins(self, log)
        self.die()
        self.is_replaced = True
        self.world.unlist(self.session)
        again = restarted(self)
        if self.journal is not None:
            left = [one.entry for one in self.stepping.aside if isinstance(one, Apply)]
            again.journal = self.journal.handed_over(left)
        again.replay.contents = self.replay.contents
        again.machine = again._new_machine(self.replay.contents)
        again.machine.rejoin(log, self.machine, self.world.now)
        again.carry_out()

    def _resume_from(self, disk: Disk) -> None:
        assert self.journal is not None
        self.replay.contents = dict(disk.contents)
        found = self.journal.resume()
        tip = found.entries[-1].header
        self.replay.restore(found.base, [one for one in found.entries if one.header.step > found.base.step])
        self.oracle.check_state(tip, self.replay.state)
        self.machine = self._new_machine(self.replay.contents)
        self.machine.start(Chain(found.entries), found.snapshots, disk.accepted, found.gaps, found.waited)
        self.machine.reached(tip.step, self.world.now)

    # -- events

    def receive(self, sender: str, message: Message, payload: Any) -> None:
        """A message has come."""
        world = self.world
        if world.now < self._frozen_until:
            self._waiting.append((sender, message, payload))
            return
        world.note(f"{sender} {self.session} {type(message).__name__}")
        self.exchange.take(sender, message, payload)
        if self.hears is not None and self.hears(sender, message):
            return
        self.machine.receive(sender, message, world.now)
        if isinstance(message, Propose):
            self.oracle.check_belief(self)
        self.carry_out()

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
            self.carry_out()
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
                self.exchange.add(batch, self.machine.buffers.open_number)
            self.machine.computed(weight, self.world.now, samples=weight, loss=weight * loss_of(batch))
        self.carry_out()
        self._begin_batch()

    # -- actions

    def carry_out(self) -> None:
        """Do what the machine asks for."""
        take_actions = self.machine.take_actions
        while actions := take_actions():
            for action in actions:
                if not self.is_alive:
                    return
                if isinstance(action, Send):
                    self._send(action)
                else:
                    self.stepping.put(action)
                if self.dies_in is not None:
                    self.dies_in -= 1
                    if self.dies_in <= 0 and self.is_alive:
                        self.die()
                        return

    def _send(self, action: Send) -> None:
        to, message = action.to, action.message
        if self.says is not None and not self.says(to, message):
            return
        self.world.send(self, to, message, self.exchange.payload(self.machine, message))
        if isinstance(message, Commit):
            self.oracle.check_committed(message.entry)


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
