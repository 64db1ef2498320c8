"""The pages of a run: `streamlit run dashboard/app.py`, with SAHAJ_URL set to the run's link."""

from pathlib import Path

import streamlit as st

from dashboard import context, frame, navigation, texts
from dashboard.api.client import Away


def main() -> None:
    """One look at one page."""
    st.set_page_config(page_icon=str(Path(__file__).with_name("icon.svg")), layout="wide")
    page = st.navigation(navigation.pages(), position="top")
    if not context.url():
        frame.no_url()
        return
    try:
        run = context.coordinator().run().value
    except Away as away:
        frame.no_contact(away)
        return
    st.set_page_config(page_title=f"{texts.line(run.name)} · {page.title}")
    frame.head(run)
    try:
        page.run()
    except Away as away:
        frame.nothing_yet("These figures are not available now", texts.plain(str(away)))


main()
