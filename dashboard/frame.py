"""What every page has around it: the run's name, its status and announcements; and what is shown without data."""

import time
from collections.abc import Callable
from functools import wraps

import streamlit as st

from dashboard import page_context, texts
from dashboard.api.answers import Progress, Run
from dashboard.api.client import Away, Found
from dashboard.language import _

HEAD_INTERVALS = 3  # refresh intervals between two looks of the head, which seldom changes

PAINT = 0.4  # seconds

# Streamlit has no switch for these: a grid of figures with their whole labels, and calm while newer ones are looked for
STYLE = """<style>
.stMainBlockContainer {max-width: 1180px; padding-top: 4.5rem; padding-bottom: 4rem}
.st-key-figures, .st-key-person-figures, .st-key-machine-figures, .st-key-expert-figures {
  display: grid; grid-template-columns: repeat(4, 1fr); gap: .75rem}
.st-key-person-figures, .st-key-machine-figures {grid-template-columns: repeat(3, 1fr)}
.st-key-my-machines {max-width: 640px} .st-key-my-machines button {min-height: 3.25rem}
.st-key-way-in {min-height: 19rem}
[data-testid="stMetricLabel"] [data-testid="stMarkdownContainer"], [data-testid="stMetricLabel"] p,
[data-testid="stMetricDelta"] [data-testid="stMarkdownContainer"], [data-testid="stMetricDelta"] p {
  white-space: normal !important}
[data-stale="true"] {opacity: 1 !important; transition: none !important}
[data-testid="stStatusWidget"] {display: none}
@media (max-width: 640px) {
  .stMainBlockContainer {padding-left: 1rem; padding-right: 1rem; padding-top: 4rem}
  .st-key-figures, .st-key-person-figures, .st-key-machine-figures, .st-key-expert-figures {
    grid-template-columns: 1fr 1fr}
  [data-testid="stMetricValue"] {font-size: 1.3rem} h1 {font-size: 1.75rem !important}}
</style>"""


def head(run: Run) -> None:
    """The run's name and status, refreshed."""
    st.html(STYLE)

    def show() -> None:
        _head(run)

    keep_new(show, HEAD_INTERVALS)


def keep_new(show: Callable[[], None], intervals: int = 1) -> None:
    """Show a part of a page now and after so many refresh intervals, and alone when something in it is touched."""

    @wraps(show)
    def part() -> None:
        try:
            show()
        except Away as away:
            not_now(away, _("{problem}. The page tries again by itself."))

    st.fragment(run_every=intervals * page_context.refresh())(part)()


def not_now(away: Away, why: str) -> None:
    """In the place of figures that there are not; `why` has a place for the problem."""
    problem = texts.plain(away.told())
    nothing_yet(_("These figures are not available now"), why.format(problem=problem[:1].upper() + problem[1:]))


def paint_first() -> None:
    """Let the browser paint what it has first: loading code and charts takes it a second."""
    if "painted" not in st.session_state:
        st.session_state["painted"] = True
        time.sleep(PAINT)


def _head(run: Run) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="medium", key="head"):
        st.title(texts.plain(run.name), anchor=False, width="content")
        try:
            found = page_context.coordinator().progress()
        except Away:
            st.badge(_("No contact"), icon=":material/cloud_off:", color="gray")
            return
        _status(found)
    _banners(found)


def _status(found: Found[Progress]) -> None:
    progress = found.value
    if found.problem:
        st.badge(_("No contact"), icon=":material/cloud_off:", color="gray")
    elif progress.finished:
        st.badge(_("Finished"), icon=":material/flag:", color="violet")
    elif progress.paused:
        st.badge(_("Closed to newcomers"), icon=":material/pause_circle:", color="orange")
    elif progress.users_present:
        here = texts.people(progress.users_present)
        st.badge(_("Training · {people} here now").format(people=here), color="green")
    else:
        st.badge(_("Waiting for people"), icon=":material/hourglass_empty:", color="blue")


def _banners(found: Found[Progress]) -> None:
    progress, now = found.value, time.time()
    if found.problem:
        since = texts.moment(found.at, page_context.zone(), now)
        st.warning(
            _(
                "**The coordinator, the server that keeps this run's figures, cannot be reached.** The figures below "
                "are from {moment} ({ago}); the page keeps trying to update them. Training continues meanwhile."
            ).format(moment=since, ago=texts.ago(now - found.at)),
            icon=":material/cloud_off:",
        )
    if progress.announcement:
        st.info(texts.plain(progress.announcement), icon=":material/campaign:")
    if progress.finished:
        how = _("**The organizer has ended this run.**") if progress.stopped else _("**This run is finished.**")
        samples = texts.number(progress.samples)
        thanks = _("Thank you for {samples} samples.").format(samples=samples)
        if progress.users_ever:
            people = texts.people(progress.users_ever)
            thanks = _("Thank you to {people} for {samples} samples.").format(people=people, samples=samples)
        st.success(f"{how} {thanks}", icon=":material/flag:")
    elif progress.paused:
        later = _("**The run takes no newcomers for now.** Training continues; please come back later.")
        st.warning(later, icon=":material/pause_circle:")


def no_contact(away: Away) -> None:
    """The page while nothing is known of the run; it tries again by itself."""
    st.html(STYLE)
    with st.container(key="no-contact", horizontal_alignment="center"):
        st.space("large")
        st.title(":material/cloud_off: " + _("No contact yet"), anchor=False, text_alignment="center")
        st.markdown(
            _("The run's coordinator at {url} cannot be reached: {problem}.").format(
                url=f"`{page_context.url().replace('`', '')}`", problem=texts.plain(away.told())
            ),
            text_alignment="center",
        )
        looks = _("This page keeps trying; there is no need to reload it.")
        st.caption(looks, text_alignment="center")
    keep_new(_look_again)


def _look_again() -> None:
    try:
        page_context.coordinator().run()
    except Away:
        return
    st.rerun(scope="app")


def no_url() -> None:
    """The page of a dashboard without a coordinator's URL."""
    st.html(STYLE)
    st.title("No run to show", anchor=False)
    st.markdown(
        f"Say where the run's coordinator is: set `{page_context.URL}` to the link that the organizer shares, such as "
        f"`{page_context.URL}=https://run.example.org`, and start again. In a Space it is a variable in the settings."
    )


def forget_button(key: str) -> None:
    """A button that takes a key out of the reader's session."""

    def forget() -> None:
        st.session_state.pop(key, None)

    st.button(_("Forget the key"), icon=":material/logout:", on_click=forget, type="tertiary")


def nothing_yet(what: str, why: str) -> None:
    """A placeholder for something that will come."""
    with st.container(border=True, horizontal_alignment="center"):
        st.markdown(f"**{what}**", text_alignment="center")
        st.caption(why, text_alignment="center")
