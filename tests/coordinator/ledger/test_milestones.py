"""What a user's days add up to, as a function of them and as the ledger has it."""

import datetime
from collections.abc import Callable

from coordinator.ledger.answers import ReachedMilestone, UserDay
from coordinator.ledger.ingest import SessionReport
from coordinator.ledger.ledger import Ledger
from coordinator.ledger.milestones import Career, career
from swarm.milestones import Kind, Standing

Report = Callable[..., SessionReport]

MONDAY = datetime.date(2026, 3, 2)
MIDNIGHT = datetime.datetime(2026, 3, 2, tzinfo=datetime.timezone.utc).timestamp()
DAY = 86400.0


def day(number: int, samples: int, hours: float = 1.0, served: int = 0) -> UserDay:
    date = MONDAY + datetime.timedelta(days=number)
    return UserDay(day=date, samples=samples, tokens=0, hours=hours, share=0.0, tokens_served=served)


def test_a_career_has_its_milestones_on_the_days_on_which_they_were_reached() -> None:
    days = [day(0, 150), day(1, 20), day(2, 0, served=7), day(3, 0, hours=9.0), day(5, 900)]
    found = career(days, MONDAY + datetime.timedelta(days=6))
    assert found == Career(
        streak=1,
        longest_streak=3,
        milestones=[
            ReachedMilestone(kind=Kind.SAMPLES, number=100, day=days[0].day),
            ReachedMilestone(kind=Kind.DAYS, number=3, day=days[2].day),
            ReachedMilestone(kind=Kind.HOURS, number=10, day=days[3].day),
            ReachedMilestone(kind=Kind.SAMPLES, number=1000, day=days[4].day),
        ],
    )
    assert career(days, MONDAY + datetime.timedelta(days=7)).streak == 0
    assert career([], MONDAY) == Career(0, 0, [])


def test_the_ledger_knows_a_users_standing(ledger: Ledger, report: Report) -> None:
    ledger.record([report("a", steps={1: (10, 5.0)})], now=MIDNIGHT)
    ledger.record([report("b", steps={2: (7, 5.0)}, last_seen=1200.0)], now=MIDNIGHT + DAY)
    ledger.record([report("b", last_seen=1260.0)], now=MIDNIGHT + DAY + 60)
    ledger.record([report("c", user="bo", steps={2: (20, 5.0)})], now=MIDNIGHT + DAY)
    assert ledger.people.standing("asha") == Standing(17, 60 / 3600, 2, MONDAY + datetime.timedelta(days=1))
    assert ledger.people.standing("nobody") == Standing()
