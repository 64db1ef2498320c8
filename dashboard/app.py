"""The pages of a run: `streamlit run dashboard/app.py`, with SAHAJ_URL set to the run's link."""

from pathlib import Path

import streamlit as st

from dashboard import frame, learning, live, machines, organizer, overview, people, person, texts
from dashboard.client import Away


def main() -> None:
    """One look at one page."""
    pages = [
        st.Page(overview.show, title="Overview", icon=":material/home:", url_path="overview", default=True),
        learning.page(),
        people.page(),
        st.Page(machines.show, title="Machines", icon=":material/memory:", url_path="machines"),
        st.Page(organizer.show, title="Organizer", icon=":material/key:", url_path="organizer"),
        person.page(),
    ]
    st.set_page_config(page_icon=str(Path(__file__).with_name("icon.svg")), layout="wide")
    page = st.navigation(pages, position="top")
    if not live.url():
        frame.no_url()
        return
    try:
        run = live.coordinator().run().value
    except Away as away:
        frame.no_contact(away)
        return
    st.set_page_config(page_title=f"{texts.line(run.name)} · {page.title}")
    frame.head(run)
    try:
        page.run()
    except Away as away:
        frame.nothing_yet("These figures cannot be had now", texts.plain(str(away)))


main()
