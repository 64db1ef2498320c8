"""Which machines of a person pause, and why."""

from dashboard.api.answers import Session
from dashboard.views.person import AWAY_FOR, paused, pauses

NOW = 1_800_000_000.0


def session(device: str, pause: str | None, ago: float = 5.0, *, present: bool = True) -> Session:
    return Session(device=device, started=NOW - 9000, last_seen=NOW - ago, present=present, pause=pause)


def test_those_that_are_here_and_those_that_have_left_for_it() -> None:
    sessions = [
        session("laptop", "battery"),
        session("laptop", ""),
        session("GPU", "hours", 3600.0, present=False),
        session("GPU", "traffic", 7200.0, present=False),  # it has come back since
        session("desktop", None),
        session("desktop", "hours", 9000.0, present=False),
        session("old", "hours", AWAY_FOR, present=False),
    ]
    assert pauses(sessions, NOW) == {0: "battery", 2: "hours"}


def test_the_reasons_are_named_once_where_they_are_given() -> None:
    assert paused("battery", "hours", "battery") == "Paused: running on battery, outside its set hours"
    assert paused("paused", "traffic") == "Paused: daily data limit reached"
    assert paused("paused") == paused() == "Paused"
    assert paused("[newer]") == r"Paused: \[newer\]"
