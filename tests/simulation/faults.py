"""What goes wrong in a simulated run: one fault after the other, each drawn from the seed."""

from collections.abc import Callable
from functools import partial

from averaging.protocol.messages import Commit, Propose, Vote
from tests.simulation.process import Disk, Process, restarted
from tests.simulation.schedules import leave_between_ballots, play
from tests.simulation.world import Ambush, World

AIM = 90.0  # seconds between two schedules
AWAY = 25.0  # seconds, most, until a killed trainer is back


class Faults:
    """Draws faults until a time; then everything heals."""

    def __init__(
        self,
        world: World,
        until: float,
        mean: float,
        *,
        forks: bool = False,
        aims: bool = False,
        sessions_survive: bool = False,
    ):
        self._world, self.until, self._mean, self._random = world, until, mean, world.random
        self.is_over = False
        self._sessions_survive = sessions_survive  # of a restart: what a mutant does
        self._kinds: list[tuple[float, Callable[[], None]]] = [
            (6, self._kill_trainer),
            (4, self._die_between_sends),
            (3, self._kill_coordinator),
            (1, self._coordinator_is_long_away),
            (2, self._coordinator_dies_between_sends),
            (4, self._freeze_somebody),
            (3, self._freeze_coordinator),
            (1, self._flap),
            (4, self._partition),
            (3, self._cut_off_coordinator_with_some),
            (3, self._lose_messages),
            (2, self._delay_messages),
            (2, self._cut_pair),
            (3, self._leave),
            (2, self._new_trainer),
            (1, self._disk_full),
            (1, self._second_incarnation),
            (1, self._kill_all_trainers),
            (1, self._long_absence),
            (0.5, self._ban),
            (0.7, self._roll_back),
            (12, self._ambush),
            (5, self._quarrel),
            (3, self._last_words),
            (4, self._voters_leave),
            (2, self._cheat),
            (6 if forks else 0, self._fork),
        ]
        if aims:
            self._aim()
        self._next()

    def _aim(self) -> None:
        """Play a schedule, again and again."""
        if self._world.now < self.until:
            play(self._world, leave_between_ballots(self._world, self._bring_back))
            self._world.after(AIM, self._aim)

    def _next(self) -> None:
        self._world.after(self._random.expovariate(1 / self._mean), self._strike)

    def _strike(self) -> None:
        if self._world.now >= self.until:
            return
        weights = [weight for weight, _ in self._kinds]
        (kind,) = self._random.choices([kind for _, kind in self._kinds], weights)
        self._world.note("fault", kind.__name__)
        kind()
        self._next()

    # -- who

    def _trainers(self) -> list[Process]:
        return [one for one in self._world.living() if not one.contact.is_coordinator]

    def _coordinators(self) -> list[Process]:
        return [one for one in self._world.living() if one.contact.is_coordinator]

    def _some_trainer(self) -> Process | None:
        found = self._trainers()
        return self._random.choice(found) if found else None

    def _seconds(self, most: float) -> float:
        return 0.5 + (most - 0.5) * self._random.random() ** 2

    # -- deaths

    def _kill(self, process: Process | None, away: float | None = None) -> None:
        if process is not None and process.is_alive:
            process.die()
            self._world.after(away or self._seconds(AWAY), lambda: self._restart(process))

    def _restart(self, process: Process) -> None:
        if process.contact.user not in self._world.banned and not process.is_replaced:
            process.is_replaced = True
            restarted(process, keeps_session=self._sessions_survive)

    def _kill_trainer(self) -> None:
        self._kill(self._some_trainer())

    def _die_between_sends(self) -> None:
        """In the next burst of actions, after one of them."""
        process = self._some_trainer()
        if process is not None:
            process.dies_in = self._random.randint(1, 60)
            self._world.after(20.0, lambda: self._kill_or_restart(process))

    def _kill_or_restart(self, process: Process) -> None:
        process.dies_in = None
        if not process.is_alive:
            self._restart(process)

    def _kill_coordinator(self) -> None:
        for process in self._coordinators():
            process.die()
            self._bring_back_coordinator(process)

    def _coordinator_is_long_away(self) -> None:
        """For longer than others keep updates."""
        for process in self._coordinators():
            process.die()
            self._world.after(100.0 + self._seconds(300.0), partial(self._coordinator_restarts, process))

    def _coordinator_dies_between_sends(self) -> None:
        for process in self._coordinators():
            process.dies_in = self._random.randint(1, 80)

            def look(process: Process = process) -> None:
                process.dies_in = None
                if not process.is_alive:
                    self._bring_back_coordinator(process)

            self._world.after(15.0, look)

    def _bring_back_coordinator(self, process: Process) -> None:
        """From its disk, now and then one that is some steps old."""
        steps = self._random.randint(1, 5) if self._random.random() < 0.25 else 0
        self._world.after(self._seconds(70.0), lambda: self._coordinator_restarts(process, steps))

    def _coordinator_restarts(self, process: Process, steps: int = 0) -> None:
        if not self._coordinators():
            assert process.disk is not None
            disk = process.disk.aged(steps) if process.disk.entries else Disk()
            restarted(process, disk)

    def bring_back_coordinator_now(self) -> None:
        """If none is there."""
        dead = [one for one in self._world.processes.values() if one.contact.is_coordinator]
        self._coordinator_restarts(max(dead, key=lambda one: one.died_at))

    def _second_incarnation(self) -> None:
        """The old process is alive, and the organizer has started another from a copy of the disk."""
        for process in self._coordinators()[:1]:
            assert process.disk is not None
            if process.disk.entries:
                another = restarted(process, process.disk.aged(self._random.randint(0, 2)))
                victim = self._random.choice([process, another])
                self._world.after(self._seconds(60.0), partial(self._end_one, victim))

    def _end_one(self, coordinator: Process) -> None:
        if len(self._coordinators()) > 1:
            coordinator.die()

    def _kill_all_trainers(self) -> None:
        for process in self._trainers():
            self._kill(process)

    # -- standing still

    def _freeze_somebody(self) -> None:
        process = self._some_trainer()
        if process is not None:
            process.freeze(self._seconds(60.0))

    def _freeze_coordinator(self) -> None:
        for process in self._coordinators():
            process.freeze(self._seconds(60.0))

    def _flap(self) -> None:
        """Just below the absence, again and again."""
        for process in self._coordinators():
            for turn in range(3):
                self._world.after(turn * 20.0, partial(process.freeze, 19.0))

    def _long_absence(self) -> None:
        process = self._some_trainer()
        if process is not None:
            process.freeze(150.0 + self._seconds(150.0))

    # -- the network

    def _partition(self) -> None:
        users = sorted({process.contact.user for process in self._world.living()})
        islands = {user: self._random.randint(0, 1) for user in users}
        self._isolate(islands)

    def _cut_off_coordinator_with_some(self) -> None:
        """With k of the voters, for every k."""
        users = sorted({process.contact.user for process in self._trainers()})
        self._random.shuffle(users)
        count = self._random.randint(0, len(users))
        coordinators = {process.contact.user for process in self._coordinators()}
        self._isolate(dict.fromkeys([*users[:count], *coordinators], 1))

    def _isolate(self, islands: dict[str, int]) -> None:
        if self.is_over:
            return
        self._world.islands = islands

        def heal() -> None:
            if self._world.islands is islands:
                self._world.islands = {}

        self._world.after(self._seconds(120.0), heal)

    def _lose_messages(self) -> None:
        self._world.lossy = self._random.choice([0.02, 0.1, 0.3])
        self._world.after(self._seconds(30.0), lambda: setattr(self._world, "lossy", 0.0))

    def _delay_messages(self) -> None:
        self._world.slow = self._random.choice([0.02, 0.2])
        self._world.after(self._seconds(30.0), lambda: setattr(self._world, "slow", 0.0))

    def _cut_pair(self) -> None:
        users = sorted({process.contact.user for process in self._world.living()})
        if len(users) > 2:
            pair = frozenset(self._random.sample(users, 2))
            self._world.cut.add(pair)
            self._world.after(self._seconds(120.0), lambda: self._world.cut.discard(pair))

    # -- where it hurts

    def _ambush(self) -> None:
        """Strike in the middle of the next commits: at a proposal, a vote or a commit, whoever sends it."""
        for _ in range(self._random.choice([1, 1, 2, 3])):
            moment = self._random.choice([Propose, Propose, Vote, Vote, Commit])
            strike = self._random.choice(
                [
                    self._dies_soon,
                    self._dies_soon,
                    self._stands_still,
                    self._leaves_now,
                    self._is_cut_off,
                    self._lose_half,
                ]
            )
            self._world.ambushes.append(Ambush(moment, strike, self._random.random() < 0.5))

    def _dies_soon(self, process: Process) -> None:
        if process.is_alive:
            process.dies_in = self._random.randint(1, 6)

            def look() -> None:
                process.dies_in = None
                if not process.is_alive:
                    self._bring_back(process)

            self._world.after(2.0, look)

    def _bring_back(self, process: Process) -> None:
        if process.contact.is_coordinator:
            self._bring_back_coordinator(process)
        else:
            self._world.after(self._seconds(AWAY), lambda: self._restart(process))

    def _stands_still(self, process: Process) -> None:
        process.freeze(self._random.choice([3.0, 15.0, 30.0, 50.0]))

    def _leaves_now(self, process: Process) -> None:
        """Once its present actions are done."""

        def leave() -> None:
            if process.is_alive and not process.is_frozen and not process.contact.is_coordinator:
                process.leave()
                self._world.after(self._seconds(AWAY), lambda: self._restart(process))

        self._world.after(0.0, leave)

    def _is_cut_off(self, process: Process) -> None:
        """With some of the others."""
        users = sorted({one.contact.user for one in self._world.living()} - {process.contact.user})
        count = self._random.randint(0, len(users) // 2)
        self._isolate(dict.fromkeys([process.contact.user, *self._random.sample(users, count)], 1))

    def _lose_half(self, process: Process) -> None:
        self._world.lossy = 0.5
        self._world.after(self._random.choice([1.0, 5.0]), lambda: setattr(self._world, "lossy", 0.0))

    def _quarrel(self) -> None:
        """A proposal reaches some, another convener proposes something else to others, and dies before they answer."""
        self._world.ambushes.append(Ambush(Propose, self._is_heard_by_some))
        if self._random.random() < 0.7:
            self._world.ambushes.append(Ambush(Propose, self._dies_after_this, waits_for_another=True))

    def _last_words(self) -> None:
        """A convener dies, and what it proposes arrives when others have proposed something else."""
        self._world.ambushes.append(Ambush(Propose, self._dies_and_is_heard_late))
        self._world.ambushes.append(Ambush(Propose, self._dies_after_this, waits_for_another=True))

    def _voters_leave(self) -> None:
        """A proposal reaches some voters, and its convener dies; these voters leave after they have voted."""
        self._world.ambushes.append(Ambush(Propose, self._is_heard_by_those_that_leave))

    def _fork(self) -> None:
        """Those that know of a trainer's commit stand still for so long that the run is reset without them."""
        self._world.ambushes.append(Ambush(Commit, self._only_voters_know))

    def _only_voters_know(self, process: Process) -> None:
        """And perhaps one that has accepted the header is left, but does not know that it is committed."""
        chain = process.machine.log.chain
        if process.contact.is_coordinator or chain is None:
            self._fork()
            return
        living = [one for one in self._world.living() if one is not process]
        voted = [
            one
            for one in living
            if one.machine.voting.voter.instance == chain.tip.previous and one.machine.voting.voter.accepted
        ]
        spared = self._random.choice([None, *voted])
        seconds = self._random.uniform(100.0, 250.0)
        for one in living:
            if one in voted and one is not spared:
                self._world.after(0.0, partial(one.freeze, seconds))
            else:
                one.deaf_until = self._world.now + 0.5
        self._world.after(0.0, partial(process.freeze, seconds))

    def _dies_after_this(self, process: Process) -> None:
        """When all that it has to send now is sent."""

        def die() -> None:
            if process.is_alive:
                process.die()
                self._bring_back(process)

        self._world.after(0.0, die)

    def _dies_and_is_heard_late(self, process: Process) -> None:
        process.lag = self._random.uniform(5.0, 60.0)
        self._dies_after_this(process)

    def _is_heard_by_those_that_leave(self, process: Process) -> None:
        some, others = self._parted_voters(process)
        for voter in others:
            voter.deaf_until = self._world.now + 0.5
        for voter in some:
            self._world.after(0.5, partial(self._leaves_now, voter))
        self._dies_after_this(process)

    def _is_heard_by_some(self, process: Process) -> None:
        """Some voters get what it sends now, but their votes are lost; others come back to it after a while."""
        some = {voter.contact.user for voter in self._parted_voters(process)[0]}
        users = sorted({one.contact.user for one in self._world.living()} - some - {process.contact.user})
        process.deaf_until = self._world.now + 0.5
        apart = dict.fromkeys(users, 2)
        self._isolate(apart)
        self._world.after(0.13, lambda: self._isolate({**apart, **dict.fromkeys(sorted(some), 1)}))
        later = dict.fromkeys(sorted(some), 1) if self._random.random() < 0.7 else {}
        self._world.after(self._random.uniform(15.0, 50.0), lambda: self._isolate(later))

    def _parted_voters(self, process: Process) -> tuple[list[Process], list[Process]]:
        """The other voters on its next header, in two groups, more often than not of one size."""
        chain = process.machine.log.chain
        names = set(chain.tip.voters) - {process.session} if chain else set()
        voters = [one for one in self._world.living() if one.session in names]
        self._random.shuffle(voters)
        half = len(voters) // 2
        count = self._random.choice([half, len(voters) - half, self._random.randint(0, len(voters))])
        return voters[:count], voters[count:]

    # -- people

    def _leave(self) -> None:
        process = self._some_trainer()
        if process is not None and not process.is_frozen:
            process.leave()
            self._world.after(self._seconds(AWAY), lambda: self._restart(process))

    def _new_trainer(self) -> None:
        process = self._some_trainer()
        if process is not None and len(self._trainers()) < 40:
            restarted(process)  # a second device of the same person

    def _ban(self) -> None:
        users = sorted({process.contact.user for process in self._trainers()})
        if len(users) > 4:
            self._world.ban(self._random.choice(users))

    def _cheat(self) -> None:
        """Somebody that may come to convene names its friends as voters, or itself as the coordinator."""
        process = self._some_trainer()
        if process is not None:
            self._world.cheats.add(process.session)

    def _roll_back(self) -> None:
        for process in self._coordinators():
            if process.machine.log.snapshots:
                process.machine.roll_back(process.machine.log.snapshots[0].digest)

    # -- disks

    def _disk_full(self) -> None:
        for process in self._coordinators():
            disk = process.disk
            assert disk is not None
            disk.is_full = True
            self._world.after(self._seconds(60.0), process.disk_has_room)

    # -- the end

    def heal(self) -> None:
        """Everybody is back and hears everybody."""
        world = self._world
        world.islands, world.lossy, world.slow = {}, 0.0, 0.0
        world.cut.clear()
        world.ambushes.clear()
        self.is_over = world.is_honest = True
        for process in world.living():
            process.dies_in = None
            if process.disk is not None:
                process.disk_has_room()
