"""The board of teams, in the whole run or lately."""

import pandas as pd
import streamlit as st

from dashboard import frame, navigation, page_context, texts
from dashboard.api.team_answers import Team
from dashboard.boards.rows import PERIODS, choose_period, choose_row
from dashboard.language import _, current


def teams() -> None:
    """Draw the table, with a period to choose."""
    chosen = choose_period("team-period")
    found = page_context.coordinator().teams(PERIODS[chosen])
    if not found.value:
        frame.nothing_yet(_("No team yet"), _("To start one: `sahaj team LINK create NAME`."))
        return
    _rows(_table(found.at, chosen, current(), found.value), f"teams {chosen}")
    st.caption(
        _(
            "What members give while in a team stays with the team, even after they leave. Choose a row to see a "
            "team's page."
        )
    )


@st.cache_resource(show_spinner=False, max_entries=12)
def _table(at: float, period: str, language: str, _teams: list[Team]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "Rank": range(1, len(_teams) + 1),
            _("Team"): [texts.line(one.name, texts.LONGEST_NAME) for one in _teams],
            _("Samples"): [one.samples for one in _teams],
            _("Share"): [one.share for one in _teams],
            _("Members"): [one.members for one in _teams],
            _("Here now"): [one.present for one in _teams],
            "name": [one.name for one in _teams],
        }
    )


def _rows(table: pd.DataFrame, key: str) -> None:
    most = float(table[_("Share")].max()) or 1.0
    columns = {
        "Rank": st.column_config.NumberColumn("#", width=40),
        _("Team"): st.column_config.TextColumn(width=200),
        _("Samples"): st.column_config.NumberColumn(format="compact"),
        _("Share"): st.column_config.ProgressColumn(format="percent", min_value=0.0, max_value=most),
        _("Members"): st.column_config.NumberColumn(format="localized"),
        _("Here now"): st.column_config.NumberColumn(format="localized"),
        "name": None,
    }
    name = choose_row(table, columns, key, "name")
    if name is not None:
        link_to(name)


def link_to(name: str) -> None:
    """A link to a team's page."""
    st.page_link(
        navigation.page("team"),
        label=_("The team {name}").format(name=texts.name(name)),
        icon=":material/group:",
        query_params={"name": name},
    )
