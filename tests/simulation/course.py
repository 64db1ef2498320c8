"""One course of a simulated run: faults for a while, then peace, in which the log goes on and all peers agree."""

import functools
import random
from dataclasses import dataclass
from unittest.mock import patch

from averaging.protocol import resting
from averaging.protocol.catching_up import held_log
from averaging.protocol.commit import quorum, voting
from averaging.protocol.messages import Contact
from averaging.protocol.settings import Settings
from tests.simulation.disk import first_disk
from tests.simulation.fault_injection.cheating import cheats
from tests.simulation.fault_injection.faults import Faults
from tests.simulation.oracle import Oracle, Violation
from tests.simulation.process import Process
from tests.simulation.state import digest_of
from tests.simulation.world import World

FAULTY = 780.0  # seconds with faults
PEACE = 150.0  # seconds without; in them the log has to go on: a slow batch, the time until a reset, another batch
PAUSE = 100.0  # seconds between two commits then, at most
QUIET = 60.0  # seconds without new gradients; after them all peers stand at the same header
STEP, LONG_STEP = 8.0, 16.0  # seconds that trainers need for a batch, about
USUAL, DENSE, RARE = 15.0, 4.0, 90.0  # seconds between two faults, on average
AIMED_EVERY, AIMED = 20, 7  # seeds: one in so many plays a schedule again and again, and other faults are rare
HEADERS = 48  # that peers keep
SHORT_WINDOW = 2  # headers for the choice of voters, in each third course: a snapshot comes with so few of them
SHORT_LOG = 2**10  # bytes of a log in half of the courses: anchors are often too old for it
OTHER_BITS_EVERY = 5  # seeds: in one of so many, some processors compute other bits
DENSE_EVERY = 4  # seeds: each fourth has few peers, and faults that meet each other
DENSE_FAULTY = 480.0  # seconds with faults, in such a course
ROLES = (8, 9)  # of ten courses: in these peers rest now and then
REST, IN_VAIN = 20.0, 120.0  # seconds at least that they rest without a step, and for which they follow no plan then


@dataclass(frozen=True)
class Course:
    """What became of one seed."""

    seed: int
    violation: str  # empty: there was none
    seconds: float  # virtual
    events: int
    commits: int
    resets: int
    adopted: int  # snapshots of processors with other bits
    processes: int
    trace: str


def run(seed: int, *, sessions_survive: bool = False) -> Course:
    """Run a seed to its end, or to the first violation."""
    draw = random.Random(seed * 7919 + 1)
    is_dense, aims = seed % DENSE_EVERY == 0, seed % AIMED_EVERY == AIMED
    speeds = [40, 40, 80] if aims else [draw.choice([20, 40, 80, 160]) for _ in range(draw.choice(_sizes(seed)))]
    settings = Settings(
        run="simulated",
        target_samples=int(sum(speeds) * (LONG_STEP if aims else STEP)),
        chunks=draw.choice([2, 4, 6]),
        snapshot_every=draw.choice([3, 5, 8]),
        most_masked=1,
        headers=HEADERS,
    )
    window = SHORT_WINDOW if seed % 3 == 0 else quorum.WINDOW
    world = World(seed, settings, has_roles=seed % 10 in ROLES)
    oracle = Oracle(settings.chunks, settings.snapshot_every, window)
    with (
        patch.object(voting, "Voter", oracle.watched(world.processes)),
        patch.object(quorum, "WINDOW", window),
        patch.multiple(resting, LASTS=REST, IN_VAIN=IN_VAIN),
        patch.object(held_log, "LONGEST", SHORT_LOG if seed % 4 < 2 else held_log.LONGEST),
        cheats(world),
    ):
        _begin(world, oracle, draw, speeds, all_reachable=aims)
        faulty, mean = (DENSE_FAULTY, DENSE) if is_dense else (FAULTY, RARE if aims else USUAL)
        forks = seed % DENSE_EVERY == 2
        faults = Faults(world, 20.0 + faulty, mean, forks=forks, aims=aims, sessions_survive=sessions_survive)
        violation = _violation(world, oracle, faults)
    world.note(violation)
    return Course(
        seed,
        violation,
        world.now,
        world.events,
        oracle.commits,
        oracle.resets,
        oracle.adopted,
        len(world.processes),
        world.trace,
    )


def _sizes(seed: int) -> list[int]:
    """Numbers of trainers."""
    if seed % DENSE_EVERY == 0:
        return [2, 3, 3, 4, 5]
    return [3, 3, 4, 4, 5, 6, 7, 8, 10, 12, 16, 40] if seed % 10 == 1 else [3, 3, 4, 5, 6, 8, 10]


def _begin(world: World, oracle: Oracle, draw: random.Random, speeds: list[int], all_reachable: bool) -> None:
    """A coordinator that opens a run, and its first trainers."""
    everybody_hides = draw.random() < 0.1
    coordinator = Contact("coordinator.000", "coordinator", reachable=True, is_coordinator=True)
    if world.seed % OTHER_BITS_EVERY == 0 and draw.random() < 0.3:
        world.other_bits.add(coordinator.user)
    disk = first_disk(world.settings.run, coordinator.session)
    first = Process(world, oracle, coordinator, speed=0, disk=disk)
    oracle.began(disk.log[0].entry, first.replay.state)
    for number, speed in enumerate(speeds):
        reachable = all_reachable or (not everybody_hides and draw.random() < 0.7)
        contact = Contact(f"user{number:02d}.000", f"user{number:02d}", reachable)
        if world.seed % OTHER_BITS_EVERY == 0 and draw.random() < 0.4:
            world.other_bits.add(contact.user)
        world.at(draw.random() * 10, functools.partial(Process, world, oracle, contact, speed))


def _violation(world: World, oracle: Oracle, faults: Faults) -> str:
    """Run to the end, or to the first violation; what it is, or nothing."""
    try:
        world.run_until(faults.until)
        _check_peace(world, oracle, faults)
    except Violation as broken:
        return str(broken)
    except (AssertionError, LookupError, ValueError) as broken:
        return f"the machine or its process fails: {broken!r}"
    return ""


def _check_peace(world: World, oracle: Oracle, faults: Faults) -> None:
    """When faults have ended the log goes on, and all peers come to the same header and state."""
    faults.heal()
    _thaw_all(world)
    if not any(one.contact.is_coordinator for one in world.living()):
        faults.bring_back_coordinator_now()
    before, began = oracle.commits, world.now
    world.run_until(began + PEACE)
    if oracle.commits < before + 2:
        raise Violation(f"{oracle.commits - before} commits within {PEACE:.0f} s after the faults have ended")
    if world.now > oracle.last_commit + PAUSE:
        raise Violation(f"no commit for {world.now - oracle.last_commit:.0f} s, long after the faults have ended")
    for process in world.living():
        process.computes = False
    world.run_until(world.now + QUIET)
    heads = {one.session: one.machine.head for one in world.living()}
    if len(set(heads.values())) != 1:
        told = {session: (head.step, head.digest[:8], head.resets) if head else None for session, head in heads.items()}
        raise Violation(f"peers stand at different headers: {told}")
    for process in world.living():
        if process.contact.is_coordinator:
            oracle.check_whole_ledger(process, world.living())
    same = [one for one in world.living() if one.contact.user not in world.other_bits]
    if len({digest_of(one.replay.state) for one in same}) > 1:
        raise Violation("peers at the same header have different states")


def _thaw_all(world: World) -> None:
    for process in world.living():
        process.thaw_now()
