"""A member that holds rounds up on purpose costs its peers a few of them; an honest one that is slow is waited for.

In virtual time, with the processes and the network of the simulation, and without overlap, which would hide much.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

import pytest

from averaging.log.header import Entry
from averaging.protocol.commit import voting
from averaging.protocol.messages import Contact
from averaging.protocol.rounds.parts import MemberProfile, Planned, equal_parts
from averaging.protocol.rounds.reliability import MOST
from averaging.protocol.settings import Settings
from tests.simulation.disk import first_disk
from tests.simulation.fault_injection.stalling import Staller
from tests.simulation.oracle import Oracle
from tests.simulation.process import Process
from tests.simulation.world import World

SPEED = 40  # samples a second of each trainer
LINES = 1.0  # seconds of a round, as the plan says of lines
SETTINGS = Settings("simulated", target_samples=7 * 8 * SPEED, chunks=4, snapshot_every=5, most_masked=1, headers=48)
WARM = 20.0  # seconds after which the staller begins
SECONDS = 900.0
FIRST = 10  # steps in which the others may learn
SLOWER = 1.1  # times as long as without it that a step takes after these

KINDS: tuple[Callable[[Staller], None], ...] = (
    Staller.silent_in_meetings,
    Staller.silent_in_every_other_meeting,
    Staller.sends_no_pieces,
    Staller.keeps_one_piece,
    Staller.reduces_nothing,
    Staller.reduces_for_ever,
    Staller.keeps_its_means,
    Staller.misses_somebody_unknown,
    Staller.misses_pieces_of_others_parts,
    Staller.never_votes,
    Staller.raises_ballots,
    Staller.refuses,
    Staller.trickles,
)


class WaitingProcess(Process):
    """Without overlap: while it is in a round it begins no batch."""

    @property
    def computes(self) -> bool:
        return not self.machine.in_round(self.world.now)

    @computes.setter
    def computes(self, value: bool) -> None:
        pass


class Village:
    """A coordinator and its trainers; `user0`, the first in a plan that knows nothing of lines, is the odd one."""

    def __init__(
        self, trainers: int = 8, lines: float = LINES, odd_is_reachable: bool = True, settings: Settings = SETTINGS
    ):
        self.world = World(1, settings)
        self.world.planner = self._plan
        self.lines = lines
        self.steps: dict[int, tuple[float, Entry]] = {}
        self._oracle = oracle = Oracle(SETTINGS.chunks, SETTINGS.snapshot_every, 32)
        self._check = oracle.check_committed
        oracle.check_committed = self._committed  # type: ignore[method-assign]
        first = 8 - trainers
        self._contacts = [
            Contact(f"user{one}.000", f"user{one}", bool(one) or odd_is_reachable) for one in range(first, 8)
        ]

    @contextmanager
    def running(self) -> Iterator[Process]:
        """Watched by the oracle; yields the odd one."""
        world, oracle = self.world, self._oracle
        with patch.object(voting, "Voter", oracle.watched(world.processes)):
            coordinator = Contact("coordinator.000", "coordinator", True, is_coordinator=True)
            disk = first_disk(SETTINGS.run, coordinator.session)
            convener = WaitingProcess(world, oracle, coordinator, speed=0, disk=disk)
            oracle.began(disk.log[0].entry, convener.replay.state)
            trainers = [WaitingProcess(world, oracle, contact, SPEED) for contact in self._contacts]
            world.run_until(WARM)
            yield trainers[0]
            world.run_until(WARM + SECONDS)

    def _plan(self, chunks: int, members: Sequence[MemberProfile]) -> Planned:
        in_order = sorted(members, key=lambda member: member.session)
        return replace(equal_parts(chunks, in_order), seconds=self.lines)

    def _committed(self, entry: Entry) -> None:
        self.steps.setdefault(entry.header.step, (self.world.now, entry))
        self._check(entry)

    @property
    def later(self) -> list[tuple[float, Entry]]:
        """The steps after the first ones, in their order."""
        assert sorted(self.steps) == list(range(min(self.steps), max(self.steps) + 1)), "a step is missing"
        return [self.steps[one] for one in sorted(self.steps) if self.steps[one][0] > WARM][FIRST:]

    @property
    def step_seconds(self) -> float:
        """Of the later steps, on average."""
        return statistics.mean(after - before for (before, _), (after, _) in pairwise(self.later))

    def distrusted(self) -> set[tuple[str, str]]:
        """Pairs of users: who does not wait for whom."""
        everybody, now = self.world.living(), self.world.now
        return {
            (one.contact.user, other.contact.user)
            for one in everybody
            for other in everybody
            if not one.machine.reducing.patience.trusts(other.session, now)
        }


@pytest.fixture(scope="module")
def usual() -> float:
    """Seconds of a step of the seven others alone."""
    village = Village(trainers=7)
    with village.running():
        pass
    return village.step_seconds


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_staller_does_not_slow_its_peers_down_for_long(usual: float, kind: Callable[[Staller], None]) -> None:
    village = Village()
    with village.running() as odd:
        kind(Staller(odd))
    assert village.step_seconds <= SLOWER * usual
    honest = {one.session for one in village.world.living() if one.speed} - {odd.session}
    for _, entry in village.later:
        assert honest <= {member.session for member in entry.header.members if member.buffers}
        assert not honest & {one.session for one in entry.header.exclusions}
    assert not {other for _, other in village.distrusted()} - {"user0"}, "an honest peer is taken for a staller"


def test_a_reducer_that_leaves_out_all_others_is_given_ever_fewer_parts() -> None:
    village = Village()
    with village.running() as odd:
        Staller(odd).leaves_out_all_others()
    left_out = [{one.session for one in entry.header.exclusions} - {odd.session} for _, entry in village.later]
    harmed = [one for one in left_out if one]
    assert harmed, "the attack does nothing"
    assert len(harmed) < len(village.later) / 10
    assert {other for one, other in village.distrusted() if one != "user0"} <= {"user0"}


@pytest.mark.parametrize("claims", [False, True])
def test_steps_of_ten_minutes_go_on_while_the_coordinator_is_away(claims: bool) -> None:
    """Each voter that convenes is heard for half of a step; one that only says so costs its peers that, once."""
    usual, trainers = 600.0, 4
    settings = replace(SETTINGS, target_samples=int(trainers * usual * SPEED))
    village = Village(trainers, settings=settings)
    with village.running() as odd:
        village.world.run_until(usual + 2 * WARM)
        next(one for one in village.world.living() if one.contact.is_coordinator).die()
        if claims:
            Staller(odd).only_claims_to_convene()
        village.world.run_until(10 * usual)
    times = [at for at, _ in village.steps.values()]
    longest = max(after - before for before, after in pairwise(times))
    assert len(times) >= (8 if claims else 9)
    assert longest <= SLOWER * usual + (settings.timeouts.word if claims else 0.0)


def thin(odd: Process, lines: float) -> None:
    """Its pieces take half as long again as the plan says."""
    Staller(odd).trickles(1.5 * lines)


def far_away(odd: Process, lines: float) -> None:
    """All that it says is half a second late."""
    odd.lag = 0.5


def slow(odd: Process, lines: float) -> None:
    """It computes an eighth of what the others do."""
    odd.speed = SPEED // 8


def asleep_once(odd: Process, lines: float) -> None:
    """Its lid is closed for a while."""
    odd.world.at(2 * WARM, odd.freeze, 30.0)


@pytest.mark.parametrize("lines", [LINES, 10 * LINES])
@pytest.mark.parametrize("is_reachable", [True, False], ids=["reachable", "client"])
@pytest.mark.parametrize("how", [thin, far_away, slow, asleep_once], ids=lambda how: how.__name__)
def test_an_honest_peer_that_is_slow_is_in_each_round(
    how: Callable[[Process, float], None], is_reachable: bool, lines: float
) -> None:
    village = Village(lines=lines, odd_is_reachable=is_reachable)
    with village.running() as odd:
        how(odd, lines)
    for _, entry in village.later:
        assert odd.session in {member.session for member in entry.header.members if member.buffers}
        assert not entry.header.exclusions
    assert not village.distrusted()


def test_a_staller_that_stops_is_waited_for_again() -> None:
    village = Village()
    with village.running() as odd:
        Staller(odd).keeps_one_piece()
        village.world.run_until(200.0)
        assert {other for _, other in village.distrusted()} == {"user0"}
        odd.says = None
        village.world.run_until(600.0)
        assert not village.distrusted()


@pytest.mark.parametrize("seconds", [6.0, 12.0])
@pytest.mark.parametrize("is_cut_off", [True, False], ids=["cut off", "asleep"])
def test_a_coordinator_that_hears_nobody_for_a_while_blames_nobody(is_cut_off: bool, seconds: float) -> None:
    village = Village()
    with village.running():
        world = village.world
        coordinator = next(one for one in world.living() if one.contact.is_coordinator)
        patience = coordinator.machine.reducing.patience
        for number in range(20):  # at other moments of a global step each time
            world.run_until(WARM + 40.5 * number)
            if is_cut_off:
                world.islands = {coordinator.contact.user: 1}
            else:
                coordinator.freeze(seconds)
            world.run_until(world.now + seconds)
            world.islands = {}
            world.run_until(world.now + 15.0)
            # a meeting that lasts two seconds may end before it knows
            most = SETTINGS.timeouts.meeting
            assert all(patience.left(one.session, world.now) >= MOST - most for one in world.living())
