"""The page of a team, at ?name=NAME: its people, what each gave to it, and its days."""

import pandas as pd
import streamlit as st

from dashboard import frame, page_context, texts
from dashboard.api.client import NotThere
from dashboard.api.team_answers import TeamPage
from dashboard.boards.rows import ROWS_SEEN
from dashboard.language import _
from dashboard.views.person import show_days


def show() -> None:
    """The whole page."""
    frame.keep_new(_team, 6)


def _team() -> None:
    name = st.query_params.get("name", "")
    try:
        team = page_context.coordinator().team(name).value if name else None
    except NotThere:
        team = None
    if team is None:
        unknown = _("This run has no team “{name}”").format(name=texts.name(name))
        frame.nothing_yet(unknown, _("Teams are on the page People."))
        return
    st.header(texts.name(team.name), anchor=False)
    with st.container(key="person-figures"):
        for label, value in (
            (_("Rank"), f"{team.rank:,}"),
            (_("Samples"), texts.number(team.samples)),
            (_("Share of the run"), texts.percent(team.share)),
            (_("Members"), texts.number(team.members)),
            (_("Here now"), texts.number(team.present)),
        ):
            st.metric(label, value, border=True, height="stretch")
    share, people = st.columns(2, gap="large")
    with share:
        st.subheader(_("Share of each day"), anchor=False)
        show_days(team.days, "team-days")
    with people:
        st.subheader(_("People"), anchor=False)
        _people(team)


def _people(team: TeamPage) -> None:
    table = pd.DataFrame(
        {
            "Here": ["●" if one.present else "" for one in team.people],
            _("Name"): [texts.line(one.user, texts.LONGEST_NAME) for one in team.people],
            _("Samples"): [one.samples for one in team.people],
            _("Share"): [one.share for one in team.people],
            _("Member"): ["✓" if one.is_member else "" for one in team.people],
        }
    )
    columns = {
        "Here": st.column_config.TextColumn("", width=28, help=_("● is here now")),
        _("Samples"): st.column_config.NumberColumn(format="compact"),
        _("Share"): st.column_config.ProgressColumn(format="percent", min_value=0.0, max_value=1.0),
    }
    height = 38 + 35 * max(1, min(ROWS_SEEN, len(table)))
    st.dataframe(table, hide_index=True, column_config=columns, placeholder="", height=height, key="team-people")
