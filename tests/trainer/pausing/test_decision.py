"""When a trainer pauses: tables of times, facts and wishes."""

import datetime

import pytest

from swarm.dht.records import PAUSES
from trainer.pausing.decision import Cause, Facts, Pause, reason_to_pause
from trainer.pausing.wishes import Hours, Occasion, When, WishError, Wishes, when


def at(hour: int, minute: int = 0) -> datetime.datetime:
    return datetime.datetime(2026, 11, 26, hour, minute, 30)


NOBODY, SOMEBODY = Facts(idle=3600.0), Facts(idle=1.0)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("always", ()),
        ("idle", (Occasion(idle=True),)),
        ("night", (Occasion(hours=Hours(22 * 60, 7 * 60)),)),
        ("22:00-07:00", (Occasion(hours=Hours(22 * 60, 7 * 60)),)),
        ("9:30-24:00", (Occasion(hours=Hours(570, 0)),)),
        (" Idle , NIGHT ", (Occasion(idle=True), Occasion(hours=Hours(22 * 60, 7 * 60)))),
        ("idle+12:00-13:00", (Occasion(idle=True, hours=Hours(720, 780)),)),
        ("12:00-13:00+idle", (Occasion(idle=True, hours=Hours(720, 780)),)),
    ],
)
def test_what_is_written_is_what_is_meant(written: str, meant: tuple[Occasion, ...]) -> None:
    assert when(written).occasions == meant


@pytest.mark.parametrize(
    "written",
    [
        *("", "sometimes", "always,idle", "idle,", "idle+idle", "night+12:00-13:00", "22-7"),
        *("22:00-22:00", "25:00-07:00", "22:60-07:00", "00:00-24:00", "7:00-24:01"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_can(written: str) -> None:
    with pytest.raises(WishError, match="must be always, idle, night or hours such as 22:00-07:00"):
        when(written)


@pytest.mark.parametrize(
    ("written", "now", "facts", "cause"),
    [
        ("always", at(12), SOMEBODY, None),
        ("always", at(12), Facts(), None),
        ("idle", at(12), NOBODY, None),
        ("idle", at(12), SOMEBODY, Cause.PERSON),
        ("idle", at(12), Facts(idle=299.0), Cause.PERSON),
        ("idle", at(12), Facts(idle=300.0), None),
        ("idle", at(12), Facts(idle=None), Cause.PERSON),  # a machine that does not tell counts as used
        ("night", at(21, 59), NOBODY, Cause.HOURS),
        ("night", at(22), SOMEBODY, None),
        ("night", at(3), SOMEBODY, None),
        ("night", at(6, 59), SOMEBODY, None),
        ("night", at(7), SOMEBODY, Cause.HOURS),
        ("9:00-17:00", at(8, 59), NOBODY, Cause.HOURS),
        ("9:00-17:00", at(9), NOBODY, None),
        ("9:00-17:00", at(17), NOBODY, Cause.HOURS),
        ("idle,night", at(12), NOBODY, None),
        ("idle,night", at(12), SOMEBODY, Cause.PERSON),
        ("idle,night", at(23), SOMEBODY, None),
        ("idle+night", at(23), NOBODY, None),
        ("idle+night", at(23), SOMEBODY, Cause.PERSON),
        ("idle+night", at(12), NOBODY, Cause.HOURS),
        ("idle+night,12:00-13:00", at(12, 30), SOMEBODY, None),
    ],
)
def test_occasions_to_train(written: str, now: datetime.datetime, facts: Facts, cause: Cause | None) -> None:
    pause = reason_to_pause(now, facts, Wishes(when(written)))
    assert (None if pause is None else pause.cause) is cause


@pytest.mark.parametrize(
    ("facts", "wishes", "cause"),
    [
        (Facts(is_ordered=True), Wishes(), Cause.ORDER),
        (Facts(is_paused_on_page=True, on_battery=True), Wishes(), Cause.PAGE),
        (Facts(is_paused_on_page=True, is_ordered=True), Wishes(), Cause.ORDER),  # and then the page's, when it is gone
        (Facts(is_ordered=True, on_battery=True, is_metered=True), Wishes(), Cause.ORDER),
        (Facts(on_battery=True), Wishes(), Cause.BATTERY),
        (Facts(on_battery=True), Wishes(on_battery=True), None),
        (Facts(is_metered=True), Wishes(), Cause.METERED),
        (Facts(is_metered=True), Wishes(on_metered=True), None),
        (Facts(is_metered=True, on_battery=True), Wishes(), Cause.METERED),
        (Facts(traffic=2e9), Wishes(), None),
        (Facts(traffic=2e9), Wishes(max_traffic=2.1), None),
        (Facts(traffic=2e9), Wishes(max_traffic=2.0), Cause.TRAFFIC),
        (Facts(traffic=2e9, is_metered=True), Wishes(max_traffic=2.0), Cause.TRAFFIC),
        (Facts(), Wishes(), None),
    ],
)
def test_reasons_beside_the_time(facts: Facts, wishes: Wishes, cause: Cause | None) -> None:
    pause = reason_to_pause(at(12), facts, wishes)
    assert (None if pause is None else pause.cause) is cause


@pytest.mark.parametrize(
    ("now", "written", "ends"),
    [
        (at(12), "night", datetime.datetime(2026, 11, 26, 22)),
        (at(12), "7:00-8:00", datetime.datetime(2026, 11, 27, 7)),
        (at(12), "7:00-8:00,20:15-20:30", datetime.datetime(2026, 11, 26, 20, 15)),
    ],
)
def test_a_pause_that_ends_at_a_known_time_says_when(
    now: datetime.datetime, written: str, ends: datetime.datetime
) -> None:
    pause = reason_to_pause(now, NOBODY, Wishes(when(written)))
    assert pause == Pause(Cause.HOURS, ends)
    assert pause.reason == f"outside the hours of --when; training begins at {ends:%H:%M}"
    tomorrow = datetime.datetime(2026, 11, 27)
    assert reason_to_pause(now, Facts(traffic=1e9), Wishes(max_traffic=1.0)) == Pause(Cause.TRAFFIC, tomorrow)


def test_others_are_not_told_that_somebody_is_there() -> None:
    assert {cause: cause.told for cause in Cause} == {
        Cause.ORDER: "paused",
        Cause.PAGE: "paused",
        Cause.PERSON: "paused",
        Cause.BATTERY: "battery",
        Cause.METERED: "metered line",
        Cause.TRAFFIC: "traffic",
        Cause.HOURS: "hours",
        Cause.LIMIT: "paused",
    }
    assert all(Pause(cause, at(12)).reason for cause in Cause)
    assert When().occasions == ()


def test_a_record_may_tell_every_cause() -> None:
    assert {one.told for one in Cause} == set(PAUSES)
