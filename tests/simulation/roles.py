"""A planner that gives roles at random: who rests in the next step, as if lines and processors had changed."""

import random
from collections.abc import Sequence

from averaging.protocol.rounds.parts import MemberProfile, Planned, equal_parts

ALL = 0.2  # share of the plans that have all rest, which no peer may follow
MOST = 0.5  # of the speed of all members that rests in any other plan


def rest_some(draw: random.Random, chunks: int, members: Sequence[MemberProfile]) -> Planned:
    """Equal parts; some members rest."""
    parts = equal_parts(chunks, members).parts
    able = [line for line in members if line.speed]
    if draw.random() < ALL:
        return Planned(parts, tuple(line.session for line in able))
    left, resting = MOST * sum(line.speed for line in able), []
    for line in draw.sample(able, len(able)):
        if line.speed <= left and draw.random() < 0.7:
            left -= line.speed
            resting.append(line.session)
    return Planned(parts, tuple(resting))
