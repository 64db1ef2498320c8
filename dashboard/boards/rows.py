"""What boards share: the choice of a period, and a table of which a row may be chosen."""

from typing import Any

import pandas as pd
import streamlit as st

from dashboard.language import _, mark

ROWS_SEEN = 14
PERIODS = {mark("Whole run"): "run", mark("7 days"): "week", mark("Today (UTC)"): "day"}


def choose_period(key: str) -> str:
    """One of `PERIODS`, as its reader chooses."""
    periods = list(PERIODS)
    return st.segmented_control(_("Period"), periods, default=periods[0], format_func=_, key=key) or periods[0]


def choose_row(table: pd.DataFrame, columns: dict[str, Any], key: str) -> int | None:
    """Draw a board; the place of the row that its reader has chosen, if there is one."""
    chosen = st.dataframe(
        table,
        hide_index=True,
        column_config=columns,
        placeholder="",
        height=38 + 35 * min(ROWS_SEEN, len(table)),
        on_select="rerun",
        selection_mode="single-row",
        key=key,
    )
    rows = chosen.selection.rows if chosen else []
    return rows[0] if rows and rows[0] < len(table) else None
