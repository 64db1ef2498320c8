"""The context of a page: the client that all sessions share, settings, and the reader's time zone and theme."""

import datetime
import os
from zoneinfo import ZoneInfo

import streamlit as st

from dashboard.api.client import Coordinator

URL, REFRESH, NOTEBOOK = "SAHAJ_URL", "SAHAJ_REFRESH", "SAHAJ_NOTEBOOK"  # environment variables
USUAL_REFRESH = 5.0  # seconds: the coordinator does not find out more often
QUICKEST = 0.2


def url() -> str:
    """The coordinator's URL, without a slash at the end; empty if it is not set."""
    return os.environ.get(URL, "").strip().rstrip("/")


def refresh() -> float:
    """Seconds between two looks at the newest figures."""
    try:
        return max(QUICKEST, float(os.environ.get(REFRESH, USUAL_REFRESH)))
    except ValueError:
        return USUAL_REFRESH


@st.cache_resource(show_spinner=False, max_entries=1)
def _coordinator(url: str, refresh: float) -> Coordinator:
    return Coordinator(url, refresh)


def coordinator() -> Coordinator:
    """The one that all sessions share."""
    return _coordinator(url(), refresh())


def zone() -> datetime.tzinfo:
    """The reader's time zone, as the browser says."""
    try:
        return ZoneInfo(st.context.timezone or "UTC")
    except (OSError, ValueError, KeyError):  # none that this machine knows
        return datetime.timezone.utc


def is_dark() -> bool:
    """Whether the reader's theme is a dark one."""
    return st.context.theme.type == "dark"
