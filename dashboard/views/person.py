"""The page of a person, at ?user=NAME: contributions by day, sessions, milestones, a card to share, and a badge."""

import datetime
import time
from collections.abc import Sequence
from urllib.parse import quote

import pandas as pd
import streamlit as st

from dashboard import frame, page_context, texts
from dashboard.api.answers import Day, Milestone, Person, Run, Session
from dashboard.api.client import NotThere
from dashboard.boards.teams import link_to
from dashboard.charts import specifications as charts
from dashboard.charts.curve_tables import moments
from dashboard.components.mounting import component
from dashboard.language import _, current, mark

NO_REASON = "paused"
PAUSES = {  # why a machine pauses, by what peers say
    "battery": mark("running on battery"),
    "metered line": mark("metered connection"),
    "traffic": mark("daily data limit reached"),
    "hours": mark("outside its set hours"),
}
MOST_MILESTONES = 10  # shown, the newest
CARD = component("card")
AWAY_FOR = 86400.0  # seconds for which a machine that has left for a pause is shown as pausing


def show() -> None:
    """The whole page."""
    frame.keep_new(_person, 6)


def _person() -> None:
    user = st.query_params.get("user", "")
    try:
        person = page_context.coordinator().person(user).value if user else None
    except NotThere:
        person = None
    if person is None:
        unknown = (
            _("Nobody called “{name}” has taken part in this run").format(name=texts.name(user))
            if user
            else _("No name was given")
        )
        frame.nothing_yet(unknown, _("The page People lists all names; the spelling must match exactly."))
        return
    _face(person)
    if person.team:
        link_to(person.team)
    _figures(person)
    share, sessions = st.columns(2, gap="large")
    with share:
        st.subheader(_("Share of each day"), anchor=False)
        show_days(person.days, "days")
    with sessions:
        st.subheader(_("Sessions"), anchor=False)
        _sessions(person)
    run = page_context.coordinator().run().value
    card, milestones = st.columns([3, 2], gap="large")
    with card:
        _card(person, run)
    with milestones:
        _milestones(person)
    _badge(person, run)


def _face(person: Person) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        avatar = texts.picture(person.avatar)
        if avatar:
            st.image(avatar, width=72)
        st.header(texts.name(person.user), anchor=False, width="content")
        if person.present:
            st.badge(_("Here now"), icon=":material/bolt:", color="green")
        if reasons := pauses(person.sessions, time.time()):
            st.badge(paused(*reasons.values()), icon=":material/pause:", color="gray")
        page = texts.hub_page(person.user, person.verified)
        if page:
            st.link_button("Hugging Face", page, icon=":material/open_in_new:", type="tertiary")
        elif person.user.startswith(texts.UNVERIFIED):
            st.badge(_("self-chosen name"), color="gray")


def _figures(person: Person) -> None:
    now, zone = time.time(), page_context.zone()
    served = ((_("Tokens served"), texts.number(person.tokens_served)),) if person.tokens_served else ()
    figures = (
        (_("Rank"), texts.DASH if person.rank is None else f"{person.rank:,}"),
        (_("Samples"), texts.number(person.samples)),
        (_("Share of the run"), texts.percent(person.share)),
        *served,
        (_("Machine hours"), texts.number(person.hours)),
        (_("First seen"), texts.DASH if person.first_seen is None else texts.day(person.first_seen, zone)),
        (_("Last seen"), texts.DASH if person.last_seen is None else texts.ago(now - person.last_seen)),
    )
    with st.container(key="person-figures"):
        for label, value in figures:
            st.metric(label, value, border=True, height="stretch")


def _milestones(person: Person) -> None:
    if not person.milestones and person.longest_streak < 2:
        return
    st.subheader(_("Milestones"), anchor=False)
    if person.longest_streak >= 2:
        most = _("Most days in a row: **{n}**").format(n=f"{person.longest_streak:,}")
        now = _("**{n}** days in a row now").format(n=f"{person.streak:,}") if person.streak >= 2 else ""
        st.markdown(":material/calendar_month: " + " · ".join(one for one in (now, most) if one))
    for one in person.milestones[: -MOST_MILESTONES - 1 : -1]:
        st.markdown(f":material/trophy: **{milestone(one)}** · {texts.calendar_day(one.day)}")


def milestone(one: Milestone) -> str:
    """What was reached."""
    forms = {
        "samples": _("{n} samples"),
        "hours": _("{n} hours in all"),
        "days": _("{n} days in a row"),
    }
    return forms.get(one.kind, "{n}").format(n=f"{one.number:,}")


def _card(person: Person, run: Run) -> None:
    try:
        image = page_context.coordinator().card(person.user, current()).value.decode("utf-8", "replace")
    except NotThere:
        return
    st.subheader(_("A card to share"), anchor=False)
    CARD(
        key="card",
        data={
            "svg": image,
            "alt": _("What {name} gave to {run}").format(name=texts.line(person.user), run=texts.line(run.name)),
            "file": texts.file_name(run.name, person.user),
            "asPng": _("Save as PNG"),
            "asSvg": _("Save as SVG"),
        },
    )


def show_days(given: Sequence[Day], key: str) -> None:
    """What a person or a team gave on each day, until today."""
    if not given:
        frame.nothing_yet(_("No day yet"), _("A day counts with the first sample that goes into a global step."))
        return
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    days = [*given, Day(day=today)]  # of none until now, so that the chart reaches to the present
    table = pd.DataFrame([{"day": one.day, "share": one.share, "samples": one.samples} for one in days])
    table["day"] = pd.to_datetime(table["day"], errors="coerce")
    charts.draw(charts.days(), table, key)


def _sessions(person: Person) -> None:
    if not person.sessions:
        frame.nothing_yet(_("No session yet"), "")
        return
    pausing = pauses(person.sessions, time.time())
    rows = [
        {
            "device": texts.line(one.device, 60),
            "start": one.started,
            "end": max(one.last_seen, one.started),
            "what": _("Paused") if number in pausing else _("Here now") if one.present else _("Ended"),
            "samples": one.samples,
        }
        for number, one in enumerate(person.sessions)
    ]
    table = pd.DataFrame(rows)
    for edge in ("start", "end"):
        table[edge] = moments(table[edge])
    charts.draw(charts.timeline(), table, "timeline")


def paused(*reasons: str) -> str:
    """What is said of machines that pause, with the reasons that peers give, each once."""
    named = [_(PAUSES[one]) if one in PAUSES else texts.plain(one, 20) for one in reasons if one != NO_REASON]
    why = ", ".join(dict.fromkeys(filter(None, named)))
    return _("Paused: {why}").format(why=why) if why else _("Paused")


def pauses(sessions: list[Session], now: float) -> dict[int, str]:
    """What peers say of why a person's machines compute nothing now, by the places of their sessions, newest first.

    For a pause of hours a machine has left the run, and its session has ended.
    """
    found, devices = {}, set()
    for number, one in enumerate(sessions):
        if one.pause and (one.present or (one.device not in devices and now - one.last_seen < AWAY_FOR)):
            found[number] = one.pause
        devices.add(one.device)
    return found


def _badge(person: Person, run: Run) -> None:
    st.subheader(_("Badge"), anchor=False)
    try:
        image = page_context.coordinator().badge(person.user).value.decode("utf-8", "replace")
    except NotThere:
        return
    st.image(image)
    st.caption(_("A picture that stays up to date, for a profile or a home page:"))
    address = f"{public_url(run)}/api/badge.svg?user={quote(person.user, safe='')}"
    st.code(f"![{texts.line(run.name)}]({address})", language=None, wrap_lines=True)


def public_url(run: Run) -> str:
    """Where readers reach the coordinator: the link in the command to join, or else the one that is known here."""
    link = (run.join.split() or [""])[-1].rstrip("/")
    return link if link.startswith(("https://", "http://")) else page_context.url()
