"""What goes wrong in a simulated run: one fault after the other, each drawn from the seed."""

from collections.abc import Callable
from functools import partial

from tests.simulation.disk import Disk
from tests.simulation.fault_injection.ambushes import Ambushes
from tests.simulation.fault_injection.lying import Liar
from tests.simulation.fault_injection.schedules import leave_between_ballots, play
from tests.simulation.process import Process, restarted
from tests.simulation.world import World

AIM = 90.0  # seconds between two schedules
LIES = 2.0  # weight of a liar among the faults
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
        ambushes = Ambushes(world, self)
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
            (2, self._disk_hangs),
            (1, self._second_incarnation),
            (1, self._kill_all_trainers),
            (1, self._long_absence),
            (0.5, self._ban),
            (0.7, self._roll_back),
            (12, ambushes.ambush),
            (5, ambushes.quarrel),
            (3, ambushes.last_words),
            (4, ambushes.voters_leave),
            (2, self._cheat),
            (LIES, self._lie),
            (6 if forks else 0, ambushes.fork),
        ]
        if aims:
            self._aim()
        self._next()

    def _aim(self) -> None:
        """Play a schedule, again and again."""
        if self._world.now < self.until:
            play(self._world, leave_between_ballots(self._world, self.bring_back))
            self._world.after(AIM, self._aim)

    def _next(self) -> None:
        self._world.after(self._random.expovariate(1 / self._mean), self._strike)

    def _strike(self) -> None:
        if self._world.now >= self.until:
            return
        weights = [weight for weight, _ in self._kinds]
        (kind,) = self._random.choices([kind for _, kind in self._kinds], weights)
        self._world.note(f"fault {kind.__name__}")
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

    def seconds(self, most: float) -> float:
        return 0.5 + (most - 0.5) * self._random.random() ** 2

    # -- deaths

    def _kill(self, process: Process | None, away: float | None = None) -> None:
        if process is not None and process.is_alive:
            process.die()
            self._world.after(away or self.seconds(AWAY), lambda: self.restart(process))

    def restart(self, process: Process) -> None:
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
            self.restart(process)

    def _kill_coordinator(self) -> None:
        for process in self._coordinators():
            process.die()
            self.bring_back_coordinator(process)

    def _coordinator_is_long_away(self) -> None:
        """For longer than others keep updates."""
        for process in self._coordinators():
            process.die()
            self._world.after(100.0 + self.seconds(300.0), partial(self._coordinator_restarts, process))

    def _coordinator_dies_between_sends(self) -> None:
        for process in self._coordinators():
            process.dies_in = self._random.randint(1, 80)

            def look(process: Process = process) -> None:
                process.dies_in = None
                if not process.is_alive:
                    self.bring_back_coordinator(process)

            self._world.after(15.0, look)

    def bring_back_coordinator(self, process: Process) -> None:
        """From its disk, now and then one that is some steps old."""
        steps = self._random.randint(1, 5) if self._random.random() < 0.25 else 0
        self._world.after(self.seconds(70.0), lambda: self._coordinator_restarts(process, steps))

    def bring_back(self, process: Process) -> None:
        """A while after its death."""
        if process.contact.is_coordinator:
            self.bring_back_coordinator(process)
        else:
            self._world.after(self.seconds(AWAY), lambda: self.restart(process))

    def _coordinator_restarts(self, process: Process, steps: int = 0) -> None:
        if not self._coordinators():
            assert process.journal is not None
            disk = process.journal.disk
            disk = disk.aged(steps) if disk.log else Disk()
            restarted(process, disk)

    def bring_back_coordinator_now(self) -> None:
        """If none is there."""
        dead = [one for one in self._world.processes.values() if one.contact.is_coordinator]
        self._coordinator_restarts(max(dead, key=lambda one: one.died_at))

    def _second_incarnation(self) -> None:
        """The old process is alive, and the organizer has started another from a copy of the disk."""
        for process in self._coordinators()[:1]:
            assert process.journal is not None
            if process.journal.disk.log:
                another = restarted(process, process.journal.disk.aged(self._random.randint(0, 2)))
                victim = self._random.choice([process, another])
                self._world.after(self.seconds(60.0), partial(self._end_one, victim))

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
            process.freeze(self.seconds(60.0))

    def _freeze_coordinator(self) -> None:
        for process in self._coordinators():
            process.freeze(self.seconds(60.0))

    def _flap(self) -> None:
        """Just below the absence, again and again."""
        for process in self._coordinators():
            for turn in range(3):
                self._world.after(turn * 20.0, partial(process.freeze, 19.0))

    def _long_absence(self) -> None:
        process = self._some_trainer()
        if process is not None:
            process.freeze(150.0 + self.seconds(150.0))

    # -- the network

    def _partition(self) -> None:
        users = sorted({process.contact.user for process in self._world.living()})
        islands = {user: self._random.randint(0, 1) for user in users}
        self.isolate(islands)

    def _cut_off_coordinator_with_some(self) -> None:
        """With k of the voters, for every k."""
        users = sorted({process.contact.user for process in self._trainers()})
        self._random.shuffle(users)
        count = self._random.randint(0, len(users))
        coordinators = {process.contact.user for process in self._coordinators()}
        self.isolate(dict.fromkeys([*users[:count], *coordinators], 1))

    def isolate(self, islands: dict[str, int]) -> None:
        if self.is_over:
            return
        self._world.islands = islands

        def heal() -> None:
            if self._world.islands is islands:
                self._world.islands = {}

        self._world.after(self.seconds(120.0), heal)

    def _lose_messages(self) -> None:
        self._world.lossy = self._random.choice([0.02, 0.1, 0.3])
        self._world.after(self.seconds(30.0), lambda: setattr(self._world, "lossy", 0.0))

    def _delay_messages(self) -> None:
        self._world.slow = self._random.choice([0.02, 0.2])
        self._world.after(self.seconds(30.0), lambda: setattr(self._world, "slow", 0.0))

    def _cut_pair(self) -> None:
        users = sorted({process.contact.user for process in self._world.living()})
        if len(users) > 2:
            pair = frozenset(self._random.sample(users, 2))
            self._world.cut.add(pair)
            self._world.after(self.seconds(120.0), lambda: self._world.cut.discard(pair))

    # -- people

    def _leave(self) -> None:
        process = self._some_trainer()
        if process is not None and not process.is_frozen:
            self.leaves(process)

    def leaves(self, process: Process) -> None:
        """With a goodbye; the same person is back after a while."""
        process.leave()
        self._world.after(self.seconds(AWAY), lambda: self.restart(process))

    def _new_trainer(self) -> None:
        process = self._some_trainer()
        if process is not None and len(self._trainers()) < 40:
            restarted(process)  # a second device of the same person

    def _ban(self) -> None:
        users = sorted({process.contact.user for process in self._trainers()})
        if len(users) > 4:
            self._world.ban(self._random.choice(users))

    def _cheat(self) -> None:
        """A peer that may come to convene names its friends as voters, or itself as the coordinator."""
        if (process := self._some_trainer()) is not None:
            self._world.cheats.add(process.session)

    def _lie(self) -> None:
        """A peer lies to all others, from now on."""
        if (process := self._some_trainer()) is not None:
            Liar(self._world, process)

    def _roll_back(self) -> None:
        for process in self._coordinators():
            machine = process.machine
            if machine.log.snapshots:
                oldest = machine.log.snapshots[0].digest
                machine.roll_back(oldest, machine.fetching.parts_of([oldest]), self._world.now)

    # -- disks

    def _disk_full(self) -> None:
        for process in self._coordinators():
            assert process.journal is not None
            process.journal.disk.is_full = True
            self._world.after(self.seconds(60.0), process.stepping.disk_has_room)

    def _disk_hangs(self) -> None:
        for process in self._coordinators():
            process.stepping.hang(self.seconds(240.0))

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
            if process.journal is not None:
                process.stepping.go_on_now()
                process.stepping.disk_has_room()
