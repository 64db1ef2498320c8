"""Who makes it happen: people as bubbles, the leaderboard, and the wall of thanks."""

import math
import time

import pandas as pd
import streamlit as st

from dashboard import context, frame, navigation, texts
from dashboard.api.answers import Leader
from dashboard.charts import specifications as charts
from dashboard.charts.packing import pack

PERIODS = {"Whole run": "run", "7 days": "week", "Today": "day"}
SEEN = ("here now", "today", "in the last 7 days", "earlier")
LIGHT, LIGHT_INKS = ("#0072b2", "#56b4e9", "#e69f00", "#c5ced6"), ("#ffffff", "#1b2733")
DARK, DARK_INKS = ("#56b4e9", "#2bbd93", "#e69f00", "#7d8e9d"), ("#0b1117", "#0b1117")
MOST_BUBBLES = 200
SMALLEST = 0.1  # radius of a bubble, by that of the largest: who gave little is seen, too
ASPECT = 2.4  # of the bubbles on a broad screen
ROWS_SEEN = 14


def show() -> None:
    """The whole page."""
    frame.keep_new(_leaderboard, 6)
    frame.keep_new(_bubbles, 12)
    frame.keep_new(_thanks, 12)


def _leaderboard() -> None:
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
        "Choose a row to see somebody's page. Names with ~ were chosen freely, the others are of the Hugging Face Hub."
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
        "Here": st.column_config.TextColumn("", width=28, help="● is training now"),
        "Avatar": st.column_config.ImageColumn("", width=36),
        "Name": st.column_config.TextColumn(width=170),
        "Samples": st.column_config.NumberColumn(format="compact"),
        "Share": st.column_config.ProgressColumn(format="percent", min_value=0.0, max_value=most),
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
            navigation.person(),
            label=f"The page of {texts.name(user)}",
            icon=":material/person:",
            query_params={"user": user},
        )


def _bubbles() -> None:
    found = context.coordinator().leaders("run")
    if not any(one.samples for one in found.value):
        return
    st.subheader("Everybody", anchor=False)
    colours, inks = (DARK, DARK_INKS) if context.is_dark() else (LIGHT, LIGHT_INKS)
    charts.draw(charts.bubbles(colours, inks, SEEN, ASPECT), _circles(found.at, found.value), "bubbles")
    left = len(found.value) - MOST_BUBBLES
    others = f" The {MOST_BUBBLES} with most are drawn, {texts.number(left)} more are in the table." if left > 0 else ""
    st.caption(f"A bubble is a person, its area what they gave, its colour when they were here last.{others}")


@st.cache_resource(show_spinner=False, max_entries=2)
def _circles(at: float, _leaders: list[Leader]) -> pd.DataFrame:
    """Places for both shapes of screen, scaled so that the whole is 1 high (and `ASPECT` wide on a broad one)."""
    drawn = [one for one in _leaders if one.samples > 0][:MOST_BUBBLES]
    most = max((one.samples for one in drawn), default=1)
    radii = [max(SMALLEST, math.sqrt(one.samples / most)) for one in drawn]
    table = pd.DataFrame(
        {
            "user": [texts.line(one.user, texts.LONGEST_NAME) for one in drawn],
            "seen": [last_here(one, time.time()) for one in drawn],
            "samples": [one.samples for one in drawn],
            "share": [one.share for one in drawn],
        }
    )
    for prefix, aspect in (("", 1.0), ("wide_", ASPECT)):
        places = pack(radii, aspect, gap=0.05)
        edge = max(
            max((abs(x) + radius) / aspect, abs(y) + radius) for (x, y), radius in zip(places, radii, strict=True)
        )
        table[f"{prefix}x"] = [x / edge for x, _ in places]
        table[f"{prefix}y"] = [y / edge for _, y in places]
        table[f"{prefix}radius"] = [radius / edge for radius in radii]
    return table


def last_here(one: Leader, now: float) -> str:
    """One of `SEEN`."""
    if one.sessions_present:
        return SEEN[0]
    return next((SEEN[number] for number, days in ((1, 1), (2, 7)) if now - one.last_seen < 86_400 * days), SEEN[3])


def _thanks() -> None:
    leaders = context.coordinator().leaders("run").value
    if not leaders:
        return
    st.subheader("Thank you", anchor=False)
    with st.container(height=220):
        st.markdown(" · ".join(texts.name(one.user) for one in leaders if one.samples))
    st.download_button(
        "For the model card (Markdown)",
        context.coordinator().thanks().value,
        file_name="thanks.md",
        mime="text/markdown",
        icon=":material/download:",
        on_click="ignore",
    )
