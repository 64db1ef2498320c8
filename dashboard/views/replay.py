"""The whole run in half a minute: the loss falls, people come and go, and the model finds its words."""

import datetime

import streamlit as st

from dashboard import frame, page_context
from dashboard.api.answers import Fill, History, Leader
from dashboard.components.mounting import component
from dashboard.components.story import Story, make_story
from dashboard.language import _, current
from dashboard.views.sentences import BLANK

REPLAY = component("replay")


def show() -> None:
    """The whole page; it stays as it was when it was opened, since a replay has its end."""
    coordinator = page_context.coordinator()
    history, fills, leaders = coordinator.history(), coordinator.fills(), coordinator.leaders("run")
    st.subheader(_("The run in half a minute"), anchor=False)
    newest = max(history.at, fills.at, leaders.at)
    zone = page_context.zone()
    story = _story(newest, current(), str(zone), zone, history.value, fills.value, leaders.value)
    if not story:
        later = _("It takes a few global steps.")
        frame.nothing_yet(_("There is nothing to replay yet"), later)
        return
    REPLAY(key="replay", data={"id": f"{newest} {current()}", "story": story, "texts": _texts()})


@st.cache_resource(show_spinner=False, max_entries=8)
def _story(
    at: float,
    language: str,
    place: str,
    _zone: datetime.tzinfo,
    _history: History,
    _fills: list[Fill],
    _leaders: list[Leader],
) -> Story:
    return make_story(_history, _fills, _leaders, _zone)


def _texts() -> dict[str, str]:
    return {
        "play": _("Play"),
        "pause": _("Pause the replay"),
        "slider": _("Moment of the run"),
        "step": _("Global step"),
        "samples": _("Samples"),
        "people": _("People here"),
        "loss": _("Training loss"),
        "trained": _("Training loss"),
        "held": _("Held-out loss"),
        "table": _("Word frequencies alone"),
        "crowd": _("People here; each mark is a newcomer"),
        "lossPlot": _("Training loss and held-out loss over the run"),
        "peoplePlot": _("People who are here, over the run"),
        "newcomers": _("New: {names}"),
        "blank": BLANK,
    }
