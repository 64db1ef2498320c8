"""Whom a reader has chosen on a board."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from dashboard.boards import rows


def test_who_was_chosen_stays_so_when_rows_move(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Callable[[], None]] = []

    def draw(_: pd.DataFrame, *, on_select: Callable[[], None], **__: Any) -> None:
        told.append(on_select)

    state: dict[str, Any] = {}
    monkeypatch.setattr(rows, "st", SimpleNamespace(dataframe=draw, session_state=state))

    def shown(*users: str, key: str = "leaders") -> str | None:
        return rows.choose_row(pd.DataFrame({"user": users}), {}, key, "user")

    def choose(*places: int) -> None:
        state["leaders"] = SimpleNamespace(selection=SimpleNamespace(rows=places))
        told[-1]()

    assert shown("asha", "bela") is None
    choose(1)
    assert shown("bela", "asha") == shown("asha", "chandra", "bela") == "bela"
    assert shown("asha", key="leaders of a day") is None
    shown("asha")
    choose(1)  # the table has become shorter meanwhile
    assert shown("asha") is None
