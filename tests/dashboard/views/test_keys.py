"""The pages of those who hold a key, while the coordinator or its ledger is away."""

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.api.admin import Orders
from dashboard.api.answers import Decisions
from dashboard.api.keyed import OrderRefused
from tests.support.waiting import PATIENCE

Show = Callable[..., AppTest]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Show:
    """`show("organizer", "organizer-key")` runs a page of somebody who has shown a key, where nobody answers."""
    monkeypatch.setenv("SAHAJ_URL", "http://127.0.0.1:9")

    def script(page: str) -> None:
        import importlib

        importlib.import_module(f"dashboard.views.{page}").show()

    def run(page: str, holds: str, **query: str) -> AppTest:
        app = AppTest.from_function(script, default_timeout=PATIENCE, kwargs={"page": page})
        app.session_state[holds] = "k"
        for name, value in query.items():
            app.query_params[name] = value
        assert not app.run().exception
        return app

    return run


def labels(app: AppTest) -> list[str]:
    return [button.label for button in app.button]


@pytest.mark.parametrize(("page", "holds"), [("organizer", "organizer-key"), ("my_machines", "personal-key")])
def test_a_key_can_be_forgotten_while_nobody_answers(show: Show, page: str, holds: str) -> None:
    app = show(page, holds)
    assert labels(app) == ["Forget the key"]
    app.button[0].click()
    app.run()
    assert holds not in app.session_state


def test_an_empty_key_in_the_address_takes_none_away(show: Show) -> None:
    app = show("my_machines", "personal-key", key=" ")
    assert app.session_state["personal-key"] == "k" and "key" not in app.query_params


def test_the_organizer_decides_while_the_ledger_is_away(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Orders, "decisions", lambda _: Decisions(banned=["~eve"]))
    monkeypatch.setattr(Orders, "flags", Mock(side_effect=OrderRefused("the ledger is away")))
    app: Any = show("organizer", "organizer-key")
    assert {"Ban", "Unban", "Forget the key"} <= set(labels(app))
    assert "the ledger is away" in [one.value for one in app.caption]
