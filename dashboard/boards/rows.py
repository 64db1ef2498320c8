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


def choose_row(table: pd.DataFrame, columns: dict[str, Any], key: str, named: str) -> str | None:
    """Draw a board; what stands in the column `named` of the row that its reader chose, wherever that is by now."""
    chosen = f"{key}-chosen"

    def remember() -> None:  # by the table in which they chose: Streamlit knows the row's place alone
        rows = [row for row in st.session_state[key].selection.rows if row < len(table)]
        st.session_state[chosen] = str(table[named].iloc[rows[0]]) if rows else None

    st.dataframe(
        table,
        hide_index=True,
        column_config=columns,
        placeholder="",
        height=38 + 35 * min(ROWS_SEEN, len(table)),
        on_select=remember,
        selection_mode="single-row",
        key=key,
    )
    return st.session_state.get(chosen)
