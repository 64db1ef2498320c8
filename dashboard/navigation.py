"""The pages and their addresses. Each imports what it needs when it is opened: tables and charts take seconds."""

import importlib
from collections.abc import Callable

import streamlit as st
from streamlit.navigation.page import StreamlitPage


def pages() -> list[StreamlitPage]:
    """All of them, the first one first."""
    return [overview(), learning(), people(), machines(), organizer(), person()]


def overview() -> StreamlitPage:
    """The first page."""
    return st.Page(_opening("overview"), title="Overview", icon=":material/home:", url_path="overview", default=True)


def learning() -> StreamlitPage:
    """How the model learns."""
    return st.Page(_opening("learning"), title="Learning", icon=":material/show_chart:", url_path="learning")


def people() -> StreamlitPage:
    """Who makes it happen."""
    return st.Page(_opening("people"), title="People", icon=":material/groups:", url_path="people")


def machines() -> StreamlitPage:
    """What it is computed on."""
    return st.Page(_opening("machines"), title="Machines", icon=":material/memory:", url_path="machines")


def organizer() -> StreamlitPage:
    """For the organizer."""
    return st.Page(_opening("organizer"), title="Organizer", icon=":material/key:", url_path="organizer")


def person() -> StreamlitPage:
    """The page of a person, whom its query parameter names."""
    return st.Page(_opening("person"), title="Person", icon=":material/person:", url_path="person", visibility="hidden")


def _opening(name: str) -> Callable[[], None]:
    def show() -> None:
        importlib.import_module(f"dashboard.views.{name}").show()

    return show
