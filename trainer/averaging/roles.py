"""Who computes gradients from the next global step on, and who only averages for the others.

All members of a group come to the same result after every round, as with the parts (`sharing.py`). A role holds until
the next round says otherwise, and not for long without one: those who train may be gone, or never were any.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trainer.averaging.planning.plan import GlobalStep, make_plan
from trainer.averaging.planning.words import explanation
from trainer.averaging.sharing import known_peers, smallest_part
from trainer.averaging.told import Told

LASTS = 3.0  # in units of a global step's predicted time: how long a role holds
LASTS_LEAST, LASTS_MOST = 60.0, 900.0  # seconds; who lies about a line may predict years
IN_VAIN = 1800.0  # seconds in which a peer that rested in vain follows no plan


@dataclass(frozen=True)
class SwarmStep:
    """What a whole swarm does in a global step."""

    samples: float
    overlap: bool  # peers compute while they average


@dataclass(frozen=True)
class Assigned:
    """What a peer does next."""

    trains: bool
    seconds: float  # for which this holds
    news: str  # for the volunteer: what, and why


def assigned(
    told: Sequence[Told], clients: Sequence[bool], own: int, swarm_step: SwarmStep, elements: int, wire_bytes: float
) -> Assigned | None:
    """The role of one member of a group; None: too little is known, and everybody trains.

    Args:
        told: what each has told.
        clients: who accepts no connections.
        own: which of them it is about.
        swarm_step: of the swarm, all of which is in the group.
        elements: of the vector of gradients.
        wire_bytes: of it as it travels.
    """
    peers = known_peers(told, clients)
    if peers is None or not any(one.speed for one in told):
        return None
    step = GlobalStep(elements, wire_bytes, swarm_step.samples, swarm_step.overlap, smallest_part(elements))
    plan = make_plan(peers, step)
    if plan.problem is not None:
        return None
    seconds = min(LASTS_MOST, max(LASTS_LEAST, LASTS * plan.step_seconds))
    return Assigned(plan.roles[own].trains, seconds, explanation(plan, peers, own))


class Role:
    """What a peer does by what it was assigned; who was assigned nothing trains.

    A plan is as true as the words in it: somebody may say that it computes more than all others together. So whoever
    rested in vain, because the step took much longer than planned, trains and follows no plan for a while.
    """

    def __init__(self) -> None:
        self._rests_until: float | None = None  # monotonic seconds
        self._follows_from = 0.0

    def take(self, given: Assigned | None, now: float) -> str | None:
        """After a round; `now` in monotonic seconds. Returns what the volunteer should hear."""
        trained = self.trains(now)
        rests = given is not None and not given.trains and now >= self._follows_from
        self._rests_until = now + given.seconds if given is not None and rests else None
        return given.news if given is not None and trained == rests else None

    def trains(self, now: float) -> bool:
        """Whether the peer computes gradients now."""
        if self._rests_until is not None and now >= self._rests_until:
            self._rests_until, self._follows_from = None, now + IN_VAIN
        return self._rests_until is None
