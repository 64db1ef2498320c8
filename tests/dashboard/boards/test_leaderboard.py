"""What stands under a leaderboard that leaves out those at its end."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dashboard import page_context
from dashboard.api.answers import Leader
from dashboard.api.client import Found
from tests.support.waiting import PATIENCE


@pytest.mark.parametrize(("period", "people"), [("Whole run", "6,000 people, 700"), ("7 days", "2 people, 700")])
def test_everybody_is_counted(monkeypatch: pytest.MonkeyPatch, period: str, people: str) -> None:
    st.cache_resource.clear()
    leaders = [Leader(user=user, samples=1, last_seen=time) for user, time in (("asha", 1.0), ("~eve", 1e12))]
    progress = SimpleNamespace(users_ever=6000, users_present=700)
    coordinator = Mock(leaders=lambda _: Found(leaders, 1.0), progress=lambda: Found(progress, 1.0))
    monkeypatch.setattr(page_context, "coordinator", lambda: coordinator)

    def script() -> None:
        from dashboard.boards.leaderboard import leaderboard

        leaderboard()

    app = AppTest.from_function(script, default_timeout=PATIENCE).run()
    app.segmented_control(key="period").set_value(period).run()
    assert not app.exception
    assert app.caption[0].value.startswith(people)
    assert list(app.dataframe[0].value["Last seen"].isna()) == [False, True], "no clock shows what ~eve says"
