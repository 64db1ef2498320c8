"""Who computes gradients from the next global step on, and who only averages for the others.

All members of a group come to the same result after every round, as with the parts (`sharing.py`). A role holds until
the next round says otherwise, and not for long without one: those who train may be gone.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.averaging.plan import GlobalStep, make_plan
from trainer.averaging.plan_words import explanation
from trainer.averaging.sharing import known_peers
from trainer.averaging.told import Told

LASTS = 3.0  # in units of a global step's predicted time: how long a role holds
LASTS_LEAST = 60.0  # seconds


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
    news: str | None  # for the volunteer, if it is something new


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
    plan = make_plan(peers, GlobalStep(elements, wire_bytes, swarm_step.samples, swarm_step.overlap))
    if plan.problem is not None:
        return None
    trains = plan.roles[own].trains
    # how much a peer averages changes with every round and is no news
    news = explanation(plan, peers, own) if trains != told[own].trains else None
    return Assigned(trains, max(LASTS_LEAST, LASTS * plan.step_seconds), news)


class Role:
    """What a peer was assigned, for as long as that holds; who was assigned nothing trains."""

    def __init__(self, given: Assigned | None):
        """Begins now."""
        self._idle_until = time.monotonic() + given.seconds if given and not given.trains else 0.0

    @property
    def trains(self) -> bool:
        """Whether the peer computes gradients."""
        return time.monotonic() >= self._idle_until
