"""Who makes it happen: people as bubbles, the leaderboard, and the wall of thanks."""

import math
import time

import pandas as pd
import streamlit as st

from dashboard import frame, page_context, texts
from dashboard.api.answers import Leader
from dashboard.boards.leaderboard import leaderboard
from dashboard.boards.teams import teams
from dashboard.charts import specifications as charts
from dashboard.charts.packing import pack
from dashboard.language import _, current, mark
from dashboard.views.experts import experts

SEEN = (mark("here now"), mark("in the last 24 hours"), mark("in the last 7 days"), mark("earlier"))
LIGHT, LIGHT_INKS = ("#0072b2", "#56b4e9", "#e69f00", "#c5ced6"), ("#ffffff", "#1b2733")
DARK, DARK_INKS = ("#56b4e9", "#2bbd93", "#e69f00", "#7d8e9d"), ("#0b1117", "#0b1117")
MOST_BUBBLES = 200
SMALLEST = 0.1  # radius of a bubble, by that of the largest: who gave little is seen, too
ASPECT = 2.4  # of the bubbles on a broad screen


def show() -> None:
    """The whole page."""
    frame.keep_new(_boards, 6)
    frame.keep_new(experts, 2)
    frame.keep_new(_bubbles, 12)
    frame.keep_new(_thanks, 12)


def _boards() -> None:
    """Of people, or of teams."""
    st.subheader(_("Leaderboard"), anchor=False)
    boards = {mark("People"): leaderboard, mark("Teams"): teams}
    kinds = list(boards)
    kind = st.segmented_control(
        _("Board"), kinds, default=kinds[0], format_func=_, key="board", label_visibility="collapsed"
    )
    boards[kind or kinds[0]]()


def _bubbles() -> None:
    found = page_context.coordinator().leaders("run")
    if not any(one.samples for one in found.value):
        return
    st.subheader(_("Everybody"), anchor=False)
    colours, inks = (DARK, DARK_INKS) if page_context.is_dark() else (LIGHT, LIGHT_INKS)
    seen = tuple(map(_, SEEN))
    charts.draw(charts.bubbles(colours, inks, seen, ASPECT), _circles(found.at, current(), found.value), "bubbles")
    drawn = min(MOST_BUBBLES, sum(one.samples > 0 for one in found.value))
    left = len(found.value) - drawn
    caption = _("Each bubble is a person: its area shows how much they gave, its colour when they were last here.")
    if left > 0:
        others = _("The bubbles show the {n} top contributors; {left} more are in the table.")
        caption = f"{caption} {others.format(n=drawn, left=texts.number(left))}"
    st.caption(caption)


@st.cache_resource(show_spinner=False, max_entries=2)
def _circles(at: float, language: str, _leaders: list[Leader]) -> pd.DataFrame:
    """Places for both shapes of screen, scaled so that the whole is 1 high (and `ASPECT` wide on a broad one)."""
    drawn = [one for one in _leaders if one.samples > 0][:MOST_BUBBLES]
    most = max((one.samples for one in drawn), default=1)
    radii = [max(SMALLEST, math.sqrt(one.samples / most)) for one in drawn]
    table = pd.DataFrame(
        {
            "user": [texts.line(one.user, texts.LONGEST_NAME) for one in drawn],
            "seen": [_(last_here(one, time.time())) for one in drawn],
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
    leaders = page_context.coordinator().leaders("run").value
    if not leaders:
        return
    st.subheader(_("Thank you"), anchor=False)
    with st.container(height=220):
        st.markdown(" · ".join(texts.name(one.user) for one in leaders if one.samples or one.tokens_served))
    st.download_button(
        _("Download the names for a model card (Markdown)"),
        page_context.coordinator().thanks().value,
        file_name="thanks.md",
        mime="text/markdown",
        icon=":material/download:",
        on_click="ignore",
    )
