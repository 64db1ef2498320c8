"""What a user's days add up to: days in a row, and the milestones on the way. Pure."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.ledger.answers import ReachedMilestone, UserDay
from swarm.milestones import Standing, longest_streak, reached


@dataclass(frozen=True)
class Career:
    """A user's days, added up."""

    streak: int  # days in a row, until today or yesterday
    longest_streak: int
    milestones: list[ReachedMilestone]  # in the order in which they were reached


def career(days: Sequence[UserDay], today: datetime.date) -> Career:
    """Of a user's days in order, as it is on a day (UTC)."""
    standing, milestones = Standing(), list[ReachedMilestone]()
    for one in days:
        before, standing = standing, standing.after(one.samples, one.hours, one.day, gave=gave_on(one))
        milestones += [ReachedMilestone(**vars(new), day=one.day) for new in reached(before, standing)]
    longest = longest_streak(one.day for one in days if gave_on(one))
    return Career(standing.streak(today), longest, milestones)


def gave_on(one: UserDay) -> bool:
    """Whether something was given on a day, and not only a machine present."""
    return one.samples > 0 or one.tokens_served > 0
