"""The pages and their addresses. Each imports what it needs when it is opened: tables and charts take seconds."""

import importlib

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from dashboard.language import _, mark

PAGES = {  # what each is called, and its icon; in their order, by the name of its module and address
    "overview": (mark("Overview"), "home"),
    "learning": (mark("Learning"), "show_chart"),
    "people": (mark("People"), "groups"),
    "machines": (mark("Machines"), "memory"),
    "my_machines": (mark("My machines"), "devices"),
    "replay": (mark("Replay"), "replay"),
    "organizer": (mark("Organizer"), "key"),
    "person": (mark("Person"), "person"),
    "team": (mark("Team"), "group"),
}


def pages() -> list[StreamlitPage]:
    """All of them, the first one first."""
    return [page(name) for name in PAGES]


def page(name: str) -> StreamlitPage:
    """One of them. Those of a person and of a team, which a query parameter names, are in no menu."""

    def show() -> None:
        importlib.import_module(f"dashboard.views.{name}").show()

    title, icon = PAGES[name]
    return st.Page(
        show,
        title=_(title),
        icon=f":material/{icon}:",
        url_path=name,
        default=name == "overview",
        visibility="hidden" if name in ("person", "team") else "visible",
    )
