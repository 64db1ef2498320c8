"""Experts on volunteers' machines: whether each is served, who hosts them, and what they add to the model."""

import pandas as pd
import streamlit as st

from dashboard import page_context, texts
from dashboard.api.answers import Expert, Experts, Host
from dashboard.charts import specifications as charts
from dashboard.language import _, mark

HEALTH = {"serving": mark("served"), "standby": mark("copy only"), "none": mark("no host has it")}
MOST_NAMED = 3  # hosts that keep a copy


def experts() -> None:
    """The section; nothing in a run without experts."""
    if not page_context.coordinator().run().value.experts:
        return
    found = page_context.coordinator().experts().value
    st.subheader(_("Experts"), anchor=False)
    st.caption(
        _(
            "Experts are parts of the model that run on volunteers' machines; trainers send them tokens to process. "
            "An expert that no host serves is left out until a host with a copy takes over."
        )
    )
    _figures(found)
    grid, hosts = st.columns([2, 3], gap="large")
    with grid:
        charts.draw(charts.experts(tuple(map(_, HEALTH.values()))), _places(found), "experts")
    with hosts:
        _hosts(found.hosts)


def _figures(found: Experts) -> None:
    served = sum(one.health == "serving" for one in found.experts)
    copied = sum(bool(one.copied_by) for one in found.experts)
    losses = found.losses
    with_experts = None if losses is None else losses.loss_with_experts
    figures: list[tuple[str, str, str | None]] = [
        (_("Served now"), _("{n} of {all}").format(n=served, all=len(found.experts)), None),
        (_("With a copy"), texts.number(copied), None),
    ]
    if losses is not None and with_experts is not None:
        gain = losses.loss - with_experts
        change = _("{nats} nats lower with experts") if gain >= 0 else _("{nats} nats higher with experts")
        figures.append((_("Held-out loss"), f"{with_experts:.3f}", change.format(nats=f"{abs(gain):.3f}")))
        figures.append((_("Without experts"), f"{losses.loss:.3f}", None))
    with st.container(key="expert-figures"):
        for label, value, note in figures:
            st.metric(label, value, note, delta_color="off", delta_arrow="off", border=True, height="stretch")


def _places(found: Experts) -> pd.DataFrame:
    """A row for each expert, with its place on the screen: the last dimension across, the others down."""
    return pd.DataFrame(
        [
            {
                "row": ".".join(map(str, one.uid[:-1])) or "0",
                "column": str(one.uid[-1]),
                "expert": ".".join(map(str, one.uid)),
                "health": _(HEALTH.get(one.health, texts.line(one.health, 20))),
                "host": texts.line(one.served_by or texts.DASH, texts.LONGEST_NAME),
                "copies": _names(one),
                "steps": one.steps,
            }
            for one in found.experts
        ]
    )


def _names(one: Expert) -> str:
    names = ", ".join(texts.line(user, texts.LONGEST_NAME) for user in one.copied_by[:MOST_NAMED])
    more = len(one.copied_by) - MOST_NAMED
    return _("{names} and {n} more").format(names=names, n=more) if more > 0 else names or texts.DASH


def _hosts(hosts: list[Host]) -> None:
    if not hosts:
        st.caption(
            _(
                "No host is here now; the rest of the model trains without experts. To host some, run {command} with "
                "the run's link."
            ).format(command="`sahaj host-experts`")
        )
        return
    table = pd.DataFrame(
        {
            _("Host"): [texts.line(one.user, texts.LONGEST_NAME) for one in hosts],
            _("Serves"): [one.serves for one in hosts],
            _("Copies"): [one.copies for one in hosts],
            _("Waiting"): [one.load for one in hosts],
            "": [_("leaving") if one.leaves else "" for one in hosts],
        }
    )
    columns = {
        _("Serves"): st.column_config.NumberColumn(format="localized", help=_("experts")),
        _("Copies"): st.column_config.NumberColumn(format="localized", help=_("of experts that others serve")),
        _("Waiting"): st.column_config.NumberColumn(
            format="%.2f s", help=_("Work waiting in its queue, in seconds; above 2 s it refuses requests.")
        ),
    }
    st.dataframe(table, hide_index=True, column_config=columns, placeholder="", key="hosts")
