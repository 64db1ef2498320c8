"""What the run is computed on, without names: devices and their speed, client mode, and countries."""

import pandas as pd
import streamlit as st

from dashboard import frame, page_context, texts
from dashboard.api.answers import Country, Machines
from dashboard.charts import specifications as charts
from dashboard.language import _

MOST_BARS = 15


def show() -> None:
    """The whole page."""
    frame.keep_new(_machines, 6)


def _machines() -> None:
    machines = page_context.coordinator().machines().value
    if not machines.devices:
        listed = _("Devices are listed once somebody trains. No names are shown with them.")
        frame.nothing_yet(_("No machine yet"), listed)
        return
    _figures(machines)
    kinds, places = st.columns(2, gap="large")
    with kinds:
        st.subheader(_("Samples by kind of device"), anchor=False)
        _bars([(one.device, one.samples) for one in machines.devices], _("device"), _("samples"), ".3~s")
    with places:
        st.subheader(_("Where people are"), anchor=False)
        _countries(machines.countries)
    st.subheader(_("Devices"), anchor=False)
    _devices(machines)


def _figures(machines: Machines) -> None:
    firewalled, reachable = machines.client_mode, machines.reachable
    present = firewalled.present + reachable.present
    figures = (
        (_("Devices now"), texts.number(present)),
        (_("Kinds of device"), texts.number(machines.kinds)),
        (_("In client mode now"), texts.number(firewalled.present)),
        (_("Reachable now"), texts.number(reachable.present)),
        (_("Sessions so far"), texts.number(firewalled.sessions + reachable.sessions)),
        (_("Share of samples from client mode"), texts.percent(_part(firewalled.samples, reachable.samples))),
    )
    with st.container(key="machine-figures"):
        for label, value in figures:
            st.metric(label, value, border=True, height="stretch")
    st.caption(
        _("In client mode a device accepts no connections (behind a firewall, in a notebook); it trains all the same.")
    )


def _part(one: int, other: int) -> float | None:
    return one / (one + other) if one + other else None


def _bars(values: list[tuple[str, float]], noun: str, unit: str, form: str) -> None:
    largest = sorted(values, key=lambda pair: pair[1], reverse=True)
    shown = [(texts.line(name, 60), value) for name, value in largest[:MOST_BARS]]
    rest = sum(value for _, value in largest[MOST_BARS:])
    if rest:
        shown.append((_("{n} others").format(n=len(largest) - MOST_BARS), rest))
    charts.draw(charts.bars(noun, unit, form), pd.DataFrame(shown, columns=["what", "value"]), f"bars-{unit}")


def _countries(countries: list[Country]) -> None:
    if not countries:
        stated = _(
            "Only people who give their country are counted. To be counted, join with your two-letter country code, "
            "such as BD for Bangladesh: {command}"
        )
        frame.nothing_yet(_("No country yet"), stated.format(command="`sahaj join LINK --country BD`"))
        return
    named: list[tuple[str, float]] = [(f"{flag(one.country)} {one.country}", one.people) for one in countries]
    _bars(named, _("country"), _("people"), ",d")
    st.caption(_("Of people who gave their country."))


def flag(country: str) -> str:
    """The flag of a country with this code of two letters."""
    code = country.upper()
    if len(code) != 2 or not code.isascii() or not code.isalpha():
        return ""
    return "".join(chr(0x1F1E6 + ord(letter) - ord("A")) for letter in code)


def _devices(machines: Machines) -> None:
    table = pd.DataFrame(
        {
            _("Device"): [texts.line(one.device, 80) for one in machines.devices],
            _("Here now"): [one.present for one in machines.devices],
            _("Sessions"): [one.sessions for one in machines.devices],
            _("Samples"): [one.samples for one in machines.devices],
            _("Samples a second"): [one.samples_per_second for one in machines.devices],
        }
    )
    columns = {
        _("Device"): st.column_config.TextColumn(width="large"),
        _("Here now"): st.column_config.NumberColumn(format="localized"),
        _("Sessions"): st.column_config.NumberColumn(format="localized"),
        _("Samples"): st.column_config.NumberColumn(format="compact"),
        _("Samples a second"): st.column_config.NumberColumn(format="%.1f", help=_("of one device while it trains")),
    }
    st.dataframe(table, hide_index=True, column_config=columns, key="devices")
