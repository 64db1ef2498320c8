"""The leaderboard: who gave how much, in the whole run or lately."""

import pandas as pd
import streamlit as st

from dashboard import frame, navigation, page_context, texts
from dashboard.api.answers import Leader
from dashboard.boards.rows import PERIODS, choose_period, choose_row
from dashboard.charts.curve_tables import moments
from dashboard.language import _, current


def leaderboard() -> None:
    """Draw the table, with a period to choose and a search."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        chosen = choose_period("period")
        wanted = st.text_input(
            _("Search"), placeholder=_("a name"), icon=":material/search:", key="search", max_chars=100, width=260
        )
    found = page_context.coordinator().leaders(PERIODS[chosen])
    if not found.value:
        frame.nothing_yet(_("Nobody yet"), _("The first samples that go into a global step open the leaderboard."))
        return
    table = _table(found.at, chosen, str(page_context.zone()), current(), found.value)
    if wanted.strip():
        table = table[table[_("Name")].str.contains(wanted.strip(), case=False, regex=False)]
        if table.empty:
            st.caption(_("Nobody whose name contains “{name}”.").format(name=texts.name(wanted)))
            return
    _rows(table, f"leaders {chosen} {wanted}")
    progress = page_context.coordinator().progress().value  # the table may leave out those at its end
    people = (progress.users_ever if PERIODS[chosen] == "run" else None) or len(found.value)
    st.caption(
        _(
            "{people}, {n} here now (●). Choose a row to see somebody's page. Names with ~ are self-chosen; the others "
            "are Hugging Face accounts."
        ).format(people=texts.people(people), n=texts.number(progress.users_present))
    )


@st.cache_resource(show_spinner=False, max_entries=12)
def _table(at: float, period: str, zone: str, language: str, _leaders: list[Leader]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "Rank": range(1, len(_leaders) + 1),
            "Here": ["●" if one.sessions_present else "" for one in _leaders],
            "Avatar": [texts.picture(one.avatar) for one in _leaders],
            _("Name"): [texts.line(one.user, texts.LONGEST_NAME) for one in _leaders],
            _("Samples"): [one.samples for one in _leaders],
            _("Share"): [one.share for one in _leaders],
            _("Tokens served"): [one.tokens_served for one in _leaders],
            _("Machine hours"): [one.hours for one in _leaders],
            _("Sessions"): [one.sessions for one in _leaders],
            _("Last seen"): moments([one.last_seen for one in _leaders]).dt.tz_convert(zone),
            "Hub": [texts.hub_page(one.user, one.verified) for one in _leaders],
            "user": [one.user for one in _leaders],
        }
    )


def _rows(table: pd.DataFrame, key: str) -> None:
    most = float(table[_("Share")].max()) or 1.0
    columns = {
        "Rank": st.column_config.NumberColumn("#", width=40),
        "Here": st.column_config.TextColumn("", width=28, help=_("● is here now")),
        "Avatar": st.column_config.ImageColumn("", width=36),
        _("Name"): st.column_config.TextColumn(width=170),
        _("Samples"): st.column_config.NumberColumn(format="compact"),
        _("Share"): st.column_config.ProgressColumn(format="percent", min_value=0.0, max_value=most),
        _("Tokens served"): st.column_config.NumberColumn(
            format="compact", help=_("by experts that this person hosts, to trainers of others")
        )
        if table[_("Tokens served")].any()
        else None,
        _("Machine hours"): st.column_config.NumberColumn(format="compact"),
        _("Sessions"): st.column_config.NumberColumn(format="localized"),
        _("Last seen"): st.column_config.DatetimeColumn(format="distance"),
        "Hub": st.column_config.LinkColumn("Hub", display_text=_("profile")),
        "user": None,
    }
    user = choose_row(table, columns, key, "user")
    if user is not None:
        st.page_link(
            navigation.page("person"),
            label=_("The page of {name}").format(name=texts.name(user)),
            icon=":material/person:",
            query_params={"user": user},
        )
