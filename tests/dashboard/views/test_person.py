"""Days and sessions of a person, as they are drawn."""

import datetime
from typing import Any

import pandas as pd
import pytest

from dashboard.api.answers import Day, Person, Session
from dashboard.charts import specifications as charts
from dashboard.views.person import _sessions, show_days


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[pd.DataFrame]:
    found: list[pd.DataFrame] = []

    def draw(_: Any, table: pd.DataFrame, key: str) -> None:
        found.append(table)

    monkeypatch.setattr(charts, "draw", draw)
    return found


def test_days_reach_until_today(drawn: list[pd.DataFrame]) -> None:
    show_days([Day(day="2026-01-01", samples=5, share=0.5)], "team-days")
    assert list(drawn[0]["samples"]) == [5, 0]
    assert drawn[0]["day"].iloc[-1].date() == datetime.datetime.now(datetime.timezone.utc).date()


def test_times_that_no_clock_shows_are_left_out(drawn: list[pd.DataFrame]) -> None:
    sessions = [Session(device="CPU", started=start, last_seen=end) for start, end in ((1.0, 2.0), (-1e12, 1e12))]
    _sessions(Person(user="~eve", samples=0, sessions=sessions))
    assert list(drawn[0]["start"].isna()) == list(drawn[0]["end"].isna()) == [False, True]
