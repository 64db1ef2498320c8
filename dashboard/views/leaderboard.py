"""The leaderboard: who gave how much, in the whole run or lately."""

import pandas as pd
import streamlit as st

from dashboard import context, frame, navigation, texts
from dashboard.api.answers import Leader

PERIODS = {"Whole run": "run", "7 days": "week", "Today": "day"}
ROWS_SEEN = 14


def leaderboard() -> None:
    """Draw the table, with a period to choose and a search."""
    st.subheader("Leaderboard", anchor=False)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        chosen = st.segmented_control("Period", list(PERIODS), default="Whole run", key="period") or "Whole run"
        wanted = st.text_input(
            "Search", placeholder="a name", icon=":material/search:", key="search", max_chars=100, width=260
        )
    found = context.coordinator().leaders(PERIODS[chosen])
    if not found.value:
        frame.nothing_yet("Nobody yet", "The first samples that go into a global step open the leaderboard.")
        return
    table = _table(found.at, chosen, str(context.zone()), found.value)
    if wanted.strip():
        table = table[table["Name"].str.contains(wanted.strip(), case=False, regex=False)]
        if table.empty:
            st.caption(f"Nobody whose name contains “{texts.name(wanted)}”.")
            return
    _rows(table)
    here = sum(1 for one in found.value if one.sessions_present)
    st.caption(
        f"{texts.count(len(found.value), 'person', 'people')}, {texts.number(here)} here now (●). "
        "Choose a row to see somebody's page. Names with ~ are self-chosen; the others are Hugging Face accounts."
    )


@st.cache_resource(show_spinner=False, max_entries=12)
def _table(at: float, period: str, zone: str, _leaders: list[Leader]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "Rank": range(1, len(_leaders) + 1),
            "Here": ["●" if one.sessions_present else "" for one in _leaders],
            "Avatar": [texts.picture(one.avatar) for one in _leaders],
            "Name": [texts.line(one.user, texts.LONGEST_NAME) for one in _leaders],
            "Samples": [one.samples for one in _leaders],
            "Share": [one.share for one in _leaders],
            "Tokens served": [one.tokens_served for one in _leaders],
            "Hours": [one.hours for one in _leaders],
            "Sessions": [one.sessions for one in _leaders],
            "Last seen": pd.to_datetime([one.last_seen for one in _leaders], unit="s", utc=True).tz_convert(zone),
            "Hub": [texts.hub_page(one.user, one.verified) for one in _leaders],
            "user": [one.user for one in _leaders],
        }
    )


def _rows(table: pd.DataFrame) -> None:
    most = float(table["Share"].max()) or 1.0
    columns = {
        "Rank": st.column_config.NumberColumn("#", width=40),
        "Here": st.column_config.TextColumn("", width=28, help="● is here now"),
        "Avatar": st.column_config.ImageColumn("", width=36),
        "Name": st.column_config.TextColumn(width=170),
        "Samples": st.column_config.NumberColumn(format="compact"),
        "Share": st.column_config.ProgressColumn(format="percent", min_value=0.0, max_value=most),
        "Tokens served": st.column_config.NumberColumn(
            format="compact", help="by experts that this person hosts, to trainers of others"
        )
        if table["Tokens served"].any()
        else None,
        "Hours": st.column_config.NumberColumn(format="compact"),
        "Sessions": st.column_config.NumberColumn(format="localized"),
        "Last seen": st.column_config.DatetimeColumn(format="distance"),
        "Hub": st.column_config.LinkColumn("Hub", display_text="profile"),
        "user": None,
    }
    chosen = st.dataframe(
        table,
        hide_index=True,
        column_config=columns,
        placeholder="",
        height=38 + 35 * min(ROWS_SEEN, len(table)),
        on_select="rerun",
        selection_mode="single-row",
        key="leaders",
    )
    rows = chosen.selection.rows if chosen else []
    if rows and rows[0] < len(table):
        user = str(table["user"].iloc[rows[0]])
        st.page_link(
            navigation.page("person"),
            label=f"The page of {texts.name(user)}",
            icon=":material/person:",
            query_params={"user": user},
        )
