"""The pages of a run: `streamlit run dashboard/app.py`, with SAHAJ_URL set to the run's link."""

from pathlib import Path

import streamlit as st

from dashboard import frame, language, navigation, page_context, texts
from dashboard.api.client import Away
from dashboard.language import _


def main() -> None:
    """One look at one page."""
    st.set_page_config(page_icon=str(Path(__file__).with_name("icon.svg")), layout="wide")
    run, problem = None, None
    try:
        run = page_context.coordinator().run().value if page_context.url() else None
    except Away as away:
        problem = away
    language.begin(run.language if run else "")
    page = st.navigation(navigation.pages(), position="top")
    if problem:
        frame.no_contact(problem)
    if run is None:
        if not problem:
            frame.no_url()
        return
    st.set_page_config(page_title=f"{texts.line(run.name)} · {page.title}")
    frame.head(run)
    try:
        page.run()
    except Away as away:
        frame.not_now(away, _("{problem}. Reload the page to try again."))
    language.choose()


main()
