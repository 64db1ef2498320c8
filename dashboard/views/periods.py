"""The choice of a period, over a board."""

import streamlit as st

from dashboard.language import _, mark

PERIODS = {mark("Whole run"): "run", mark("7 days"): "week", mark("Today"): "day"}


def choose_period(key: str) -> str:
    """One of `PERIODS`, as its reader chooses."""
    periods = list(PERIODS)
    return st.segmented_control(_("Period"), periods, default=periods[0], format_func=_, key=key) or periods[0]
