"""Figures of the first page, and who is here."""

from unittest.mock import Mock

import pytest
from streamlit.proto.Metric_pb2 import Metric
from streamlit.testing.v1 import AppTest

from dashboard import page_context
from dashboard.api.answers import LastHour, Leader, Progress
from dashboard.api.client import Found
from dashboard.language import VARIABLE
from tests.support.waiting import PATIENCE

PROGRESS = Progress(
    step=1,
    total_steps=2,
    samples=3,
    tokens=4,
    users_present=700,
    paused=False,
    stopped=False,
    announcement="",
    last_hour=LastHour(steps=5, users_present=-6),
)


@pytest.fixture(autouse=True)
def coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    leaders = [Leader(user=f"user-{number}", samples=1, last_seen=1.0, sessions_present=1) for number in range(20)]
    found = Mock(progress=lambda: Found(PROGRESS, 1.0), leaders=lambda _: Found(leaders, 1.0))
    monkeypatch.setattr(page_context, "coordinator", lambda: found)


@pytest.mark.parametrize("language", ["en", "bn"])
def test_what_falls_points_down_in_every_language(monkeypatch: pytest.MonkeyPatch, language: str) -> None:
    monkeypatch.setenv(VARIABLE, language)

    def script() -> None:
        from dashboard.views import overview

        overview._figures()

    app = AppTest.from_function(script, default_timeout=PATIENCE).run()
    assert not app.exception
    rising, _, _, falling, *_ = (metric.proto.direction for metric in app.metric)
    assert (rising, falling) == (Metric.MetricDirection.UP, Metric.MetricDirection.DOWN)


def test_all_who_are_here_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.navigation.page", lambda _: "https://example.org")
    monkeypatch.setattr("dashboard.language.current", lambda: "en")

    def script() -> None:
        from dashboard.views import overview

        overview._who_is_here()

    app = AppTest.from_function(script, default_timeout=PATIENCE).run()
    assert not app.exception
    assert "and 688 more" in app.markdown[0].value
