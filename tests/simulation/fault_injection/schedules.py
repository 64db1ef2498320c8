"""Faults that have to come one after the other, each at its moment, to show what a rule is for.

A schedule is a generator that yields the seconds that it waits for.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import TypeAlias

from averaging.protocol.rounds.round import Phase
from tests.simulation.process import Process
from tests.simulation.world import World

Schedule: TypeAlias = Iterator[float]
GLANCE = 0.01  # seconds between two looks at the processes; a message takes longer


def play(world: World, schedule: Schedule) -> None:
    """Begin a schedule."""
    seconds = next(schedule, None)
    if seconds is not None:
        world.after(seconds, lambda: play(world, schedule))


def leave_between_ballots(world: World, bring_back: Callable[[Process], object]) -> Schedule:
    """A voter promises two ballots, and the convener of the lower one hears its goodbye before it has its vote.

    The coordinator has proposed to two of three voters, and only the first has voted. The second promises a higher
    ballot of the third, and leaves. If the coordinator took it for one voter fewer, the first one's vote would be
    enough; the third has two promises, knows nothing of that header, and the first votes for another one.

    The third must have as much as the two others together, and a step must take longer than an absence.
    """
    yield from _next_step(world)
    cast = _cast(world)
    if cast is None:
        return
    coordinator, first, leaver, rival = cast
    pairs = [frozenset((one.contact.user, other.contact.user)) for one, other in itertools.combinations(cast, 2)]
    with_rival = [pair for pair in pairs if rival.contact.user in pair]
    leaver_and_rival = frozenset((leaver.contact.user, rival.contact.user))
    leaver_and_coordinator = frozenset((leaver.contact.user, coordinator.contact.user))
    first_and_rival = frozenset((first.contact.user, rival.contact.user))

    everybody = cast

    def till(happened: Callable[[], bool], seconds: float) -> Schedule:
        end = world.now + seconds
        while world.now < end and all(one.is_alive for one in everybody) and not happened():
            yield GLANCE

    def same_step() -> bool:
        return rival.machine.head == coordinator.machine.head == leaver.machine.head

    def proposes() -> bool:
        current = coordinator.machine.convening.round
        return current is not None and current.phase is Phase.PROPOSING

    def has_called() -> bool:
        current = rival.machine.convening.round
        return current is not None and leaver.session in current.meeting.calls

    def has_met() -> bool:
        current = rival.machine.convening.round
        return current is not None and current.phase is not Phase.MEETING

    try:
        world.cut.update(with_rival)  # it comes to lead, alone
        yield from till(proposes, 60.0)
        if not (proposes() and same_step() and rival.machine.progress.leads(world.now)):
            return
        world.cut.add(leaver_and_coordinator)  # the proposal is lost on its way to the second voter
        yield from till(lambda: first.machine.voting.voter.accepted is not None, 1.0)
        world.cut.discard(leaver_and_rival)
        yield from till(has_called, 8.0)
        if not has_called():
            return
        world.cut.add(leaver_and_rival)
        world.cut.discard(leaver_and_coordinator)
        world.islands = dict.fromkeys((coordinator.contact.user, leaver.contact.user), 1)
        leaver.leave()
        bring_back(leaver)
        everybody = (coordinator, first, rival)
        yield from till(has_met, 5.0)
        world.cut.discard(first_and_rival)
        before = rival.machine.head
        yield from till(lambda: rival.machine.head != before, 20.0)
    finally:
        world.cut.difference_update(pairs)
        world.islands = {}


def _next_step(world: World) -> Schedule:
    """Until a header was applied by all."""
    before, end = _instances(world), world.now + 60.0
    while world.now < end:
        heads = _instances(world)
        if len(heads) == 1 and not heads & before:
            return
        yield GLANCE


def _instances(world: World) -> set[str]:
    """Digests of the headers at which the living stand."""
    return {one.machine.voting.instance for one in world.living()}


def _cast(world: World) -> tuple[Process, ...] | None:
    """The coordinator, and three voters that decide with it about the next header, the fastest of them last."""
    living = {one.session: one for one in world.living() if not one.is_frozen}
    coordinators = [one for one in living.values() if one.contact.is_coordinator and one.machine.log.chain is not None]
    if len(coordinators) != 1:
        return None
    tip = coordinators[0].machine.log.tip
    voters = sorted((living[one] for one in tip.voters if one in living), key=lambda one: (one.speed, one.session))
    if len(voters) != 3 or len(tip.voters) != 3 or tip.tie_breaker != coordinators[0].session:
        return None
    return (coordinators[0], *voters)
