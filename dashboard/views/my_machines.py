"""A person's own machines, from the phone: what each does, and buttons to pause it and have it go on.

The link that `sahaj me` prints has the personal key in its address; the page takes it into the session at once.
"""

import time

import streamlit as st

from dashboard import frame, page_context, texts
from dashboard.api.client import is_private
from dashboard.api.keyed import OrderRefused, WrongKey
from dashboard.api.me import Me, MyMachine
from dashboard.language import _
from dashboard.views.person import paused, public_url

PARAMETER = "key"  # of the address
KEY, RESULT = "personal-key", "personal-result"  # in the session


def show() -> None:
    """What the machines do or, without a key, how to get one."""
    st.subheader(_("My machines"), anchor=False)
    if PARAMETER in st.query_params:
        if key := st.query_params[PARAMETER].strip():
            st.session_state[KEY] = key
        del st.query_params[PARAMETER]  # so that it is in no picture of the screen, and in no link that is passed on
    if KEY in st.session_state:
        frame.keep_new(_machines)
    else:
        _way_in()


def _way_in() -> None:
    if refused := st.session_state.pop(RESULT, None):
        st.error(refused)
    st.markdown(
        _(
            "Run this command on one of your machines that has joined. It prints a link to this page that contains "
            "your personal key:"
        )
    )
    st.code(f"sahaj me {public_url(page_context.coordinator().run().value)}", language=None, wrap_lines=True)
    st.caption(_("Open that link on your phone to pause and resume your machines from anywhere."))
    with st.form("personal-key", width=460):
        key = st.text_input(_("Personal key"), type="password", autocomplete="off", max_chars=600, key="personal-typed")
        entered = st.form_submit_button(_("Open"), type="primary", icon=":material/key:", width="stretch")
    if entered and key.strip():
        st.session_state[KEY] = key.strip()
        st.rerun()


def _machines() -> None:
    me = Me(page_context.url(), st.session_state[KEY])
    try:
        found = me.machines()
    except WrongKey as refused:
        st.session_state[RESULT] = texts.plain(refused.told())
        del st.session_state[KEY]
        st.rerun(scope="app")
    except OrderRefused as refused:
        frame.nothing_yet(_("This page cannot be shown now"), texts.plain(refused.told()))
        frame.forget_button(KEY)
        return
    if refused_order := st.session_state.pop(RESULT, None):
        st.error(refused_order)
    st.caption(texts.name(found.user))
    if not found.machines:
        frame.nothing_yet(_("No machine yet"), _("A machine is listed here once it trains."))
    with st.container(key="my-machines"):
        if len(found.machines) > 1:
            _for_all(me, found.machines)
        away = [one for one in found.machines if one.doing == "away" and not one.ordered]
        for one in found.machines:
            if one not in away:
                _machine(me, one, time.time())
        if away:
            with st.expander(_("Away: {n}").format(n=len(away)), expanded=len(away) == len(found.machines)):
                for one in away:
                    _machine(me, one, time.time())
    st.caption(_("A machine follows within about 15 seconds, wherever it is. You lose no credit by pausing."))
    st.caption(
        _("This page forgets the key when you close it. Keep the link that `sahaj me` printed, and do not share it.")
        if _is_safe()
        else _("**This page is not encrypted.** Anyone who intercepts the key can do everything here that you can.")
    )
    frame.forget_button(KEY)


def _for_all(me: Me, machines: list[MyMachine]) -> None:
    with st.container(horizontal=True, gap="small"):
        if not all(one.ordered for one in machines):
            _button(_("Pause all"), me, None, pause=True)
        if any(one.ordered for one in machines):
            _button(_("Resume all"), me, None, pause=False)


def _machine(me: Me, machine: MyMachine, now: float) -> None:
    label, colour, icon = status(machine)
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(f"**{texts.plain(machine.device, 60)}**", width="content")
            st.badge(label, color=colour, icon=icon)  # type: ignore[arg-type]
        st.caption(" · ".join(figures(machine, now)))
        if machine.ordered:
            _button(_("Resume"), me, machine.peer_id, pause=False)
        else:
            _button(_("Pause"), me, machine.peer_id, pause=True)


def status(machine: MyMachine) -> tuple[str, str, str]:
    """What is said of a machine now, with a colour and an icon."""
    if machine.ordered and machine.doing == "training":
        return _("Will pause in a moment"), "orange", ":material/hourglass_top:"
    if machine.ordered:
        return _("Paused by you"), "orange", ":material/pause_circle:"
    if machine.doing == "training":
        return _("Training"), "green", ":material/bolt:"
    if machine.doing == "pausing":
        return paused(machine.pause), "gray", ":material/pause:"
    return _("Away"), "gray", ":material/power_settings_new:"


def figures(machine: MyMachine, now: float) -> list[str]:
    """What a machine has done, and how fast it is or when it was here last."""
    done = _("{n} samples").format(n=texts.number(machine.samples))
    if machine.doing == "training":
        return [done, _("{n} samples a second").format(n=texts.number(machine.samples_per_second))]
    return [done, _("last seen {when}").format(when=texts.ago(now - machine.last_seen))]


def _button(label: str, me: Me, peer_id: str | None, *, pause: bool) -> None:
    icon, kind = (":material/pause:", "secondary") if pause else (":material/play_arrow:", "primary")
    key = f"{'pause' if pause else 'resume'}-{peer_id or 'all'}"
    if st.button(label, key=key, icon=icon, type=kind, width="stretch"):  # type: ignore[arg-type]
        try:
            (me.pause if pause else me.resume)(peer_id)
        except OrderRefused as refused:
            st.session_state[RESULT] = texts.plain(refused.told())
        st.rerun(scope="fragment")


def _is_safe() -> bool:
    return is_private(page_context.url()) and (not st.context.url or is_private(st.context.url))
