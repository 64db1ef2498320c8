"""For the organizer: flags, bans, announcements, closing and stopping the run. The admin key stays in this session."""

import time
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import frame, page_context, texts
from dashboard.api.admin import Orders
from dashboard.api.answers import Decisions
from dashboard.api.client import is_private
from dashboard.api.keyed import OrderRefused, WrongKey
from dashboard.language import _

KEY, RESULT = "organizer-key", "organizer-result"  # in the session


def show() -> None:
    """The form for the admin key or, with it, the organizer's page."""
    st.subheader(_("For the organizer"), anchor=False)
    problem = not_private()
    if problem:
        st.warning(problem, icon=":material/lock_open:")
    elif KEY in st.session_state:
        frame.keep_new(_decisions_page, frame.HEAD_INTERVALS)
    else:
        _key_form()


def not_private() -> str:
    """Why the key must not travel from this page, if it must not."""
    if not is_private(page_context.url()):
        return _(
            "**The key would travel to the coordinator without encryption.** "
            "Use `sahaj admin` on the coordinator's machine instead, or serve the run over HTTPS."
        )
    if st.context.url and not is_private(st.context.url):
        return _(
            "**This page is not encrypted, and others on the network could read the key.** "
            "Open it over HTTPS or on the machine that serves it, or use `sahaj admin` instead."
        )
    return ""


def _key_form() -> None:
    with st.form("admin-key", width=460):
        key = st.text_input(_("Admin key"), type="password", autocomplete="off", max_chars=200, key="organizer-typed")
        st.caption(
            _(
                "You find the key on the coordinator's machine, in the file `NAME-state/admin.key` (NAME is the run's "
                "name). The key is kept only while this page is open."
            )
        )
        entered = st.form_submit_button(_("Open"), type="primary", icon=":material/key:")
    if not entered:
        return
    try:
        Orders(page_context.url(), key.strip()).decisions()
    except OrderRefused as refused:
        st.error(texts.plain(refused.told()))
        return
    st.session_state[KEY] = key.strip()
    st.rerun()


def _decisions_page() -> None:
    orders = Orders(page_context.url(), st.session_state[KEY])
    try:
        decisions = orders.decisions()
    except WrongKey:
        del st.session_state[KEY]
        st.rerun(scope="app")
    except OrderRefused as refused:
        frame.nothing_yet(_("This page cannot be shown now"), texts.plain(refused.told()))
        frame.forget_button(KEY)
        return
    result = st.session_state.pop(RESULT, None)
    if result:
        (st.success if result[0] else st.error)(result[1])
    _state(orders, decisions)
    announcement, people = st.columns(2, gap="large")
    with announcement:
        _announcement(orders, decisions)
    with people:
        _people(orders, decisions)
    _flags(orders)
    frame.forget_button(KEY)


def _state(orders: Orders, decisions: Decisions) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if decisions.stopped:
            st.badge(_("Stopped"), color="violet", icon=":material/flag:")
        elif decisions.paused:
            st.badge(_("Closed to newcomers"), color="orange", icon=":material/pause_circle:")
        else:
            st.badge(_("Accepting newcomers"), color="green", icon=":material/lock_open:")
        if decisions.paused or decisions.stopped:  # one order takes back both
            again = _("Resume") if decisions.stopped else _("Open to newcomers")
            _order(again, orders, "resume", icon=":material/play_arrow:")
        else:
            later = _("Newcomers are asked to come back later.")
            _order(_("Close to newcomers"), orders, "pause", icon=":material/pause:", help=later)
        if not decisions.stopped:
            with st.popover(_("Stop the run"), icon=":material/stop_circle:"):
                leave = _("All machines stop training and leave within a minute. *Resume* lets people join again.")
                st.markdown(leave)
                _order(_("Stop it for everybody"), orders, "stop", type="primary")


def _announcement(orders: Orders, decisions: Decisions) -> None:
    st.markdown(_("**Announcement**"))
    st.caption(_("A banner on every page, and a line in every volunteer's console."))
    with st.form("announce", border=False, clear_on_submit=True):
        text = st.text_input(_("Text"), max_chars=500, key="announce-text", placeholder=_("one line for everybody"))
        if st.form_submit_button(_("Announce"), icon=":material/campaign:") and text.strip():
            _carry_out(orders, "announce", _("Announced."), text=text.strip())
    if decisions.announcement:
        st.text(texts.line(decisions.announcement))
        _order(_("Remove it"), orders, "announce", text="")


def _people(orders: Orders, decisions: Decisions) -> None:
    st.markdown(_("**Ban**"))
    st.caption(_("A name as the leaderboard shows it, or a peer id. Every peer shuts them out within a minute."))
    with st.form("ban", border=False, clear_on_submit=True):
        name = st.text_input(_("Name or peer id"), max_chars=100, key="ban-name")
        if st.form_submit_button(_("Ban"), icon=":material/block:") and name.strip():
            _carry_out(orders, "ban", _("{name} is banned.").format(name=texts.name(name)), name=name.strip())
    for banned in decisions.banned:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.text(texts.line(banned, 100))
            _order(_("Unban"), orders, "unban", name=banned)


def _flags(orders: Orders) -> None:
    st.markdown(_("**Flags**"))
    try:
        flags = orders.flags()
    except OrderRefused as refused:  # they are in the ledger, which may be away
        st.caption(texts.plain(refused.told()))
        return
    if not flags:
        st.caption(_("No flags: nothing odd has been seen about any peer."))
        return
    zone, now = page_context.zone(), time.time()
    table = pd.DataFrame(
        {
            _("Name"): [texts.line(one.user, texts.LONGEST_NAME) for one in flags],
            _("Kind"): [texts.line(one.kind, 40) for one in flags],
            _("What"): [texts.line(one.what, 300) for one in flags],
            _("Step"): [one.step for one in flags],
            _("Times"): [one.times for one in flags],
            _("Last"): ["" if one.last is None else texts.moment(one.last, zone, now) for one in flags],
            _("Peer"): [texts.line(one.peer_id, 100) for one in flags],
        }
    )
    st.dataframe(
        table, hide_index=True, key="flags", column_config={_("What"): st.column_config.TextColumn(width="large")}
    )


def _order(label: str, orders: Orders, order: str, **details: Any) -> None:
    """A button that gives an order."""
    looks = {name: details.pop(name) for name in ("icon", "help", "type") if name in details}
    key = f"order-{order}-{'-'.join(map(str, details.values()))}"
    if st.button(label, key=key, **looks):
        _carry_out(orders, order, _("Done."), **details)


def _carry_out(orders: Orders, order: str, done: str, **body: Any) -> None:
    try:
        orders.give(order, **body)
        st.session_state[RESULT] = (True, done)
    except OrderRefused as refused:
        st.session_state[RESULT] = (False, texts.plain(refused.told()))
    st.rerun()
