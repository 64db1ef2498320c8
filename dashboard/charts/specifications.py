"""Vega-Lite specifications. They stay the same while tables change, so a refresh does not draw a chart anew."""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeAlias

import altair as alt
import pandas as pd
import streamlit as st

from dashboard.language import _, current, mark

P = ParamSpec("P")
Specification: TypeAlias = dict[str, Any]

TRAINING, HELD_OUT = mark("Training loss"), mark("Held-out loss")
FREQUENCIES = mark("Word frequencies alone")
STEP, TIME = mark("Global step"), mark("Time")
SMALL = 230  # pixels of height
BROAD = 640  # pixels of width
GRAY = "#8b98a5"  # seen on light and dark ground


def draw(specification: dict[str, Any], table: pd.DataFrame, key: str) -> None:
    """Show a chart; times of the table are shown in the reader's zone."""
    st.vega_lite_chart(table, specification, width="stretch", key=key)


def cached(make: Callable[P, Specification]) -> Callable[P, Specification]:
    """Each specification once for each language."""

    @cache
    def made(language: str, *args: P.args, **kwargs: P.kwargs) -> Specification:
        return make(*args, **kwargs)

    @wraps(make)
    def in_language(*args: P.args, **kwargs: P.kwargs) -> Specification:
        return made(current(), *args, **kwargs)  # type: ignore[arg-type]  # all of them can be hashed

    return in_language


@cached
def loss(axis: str, has_order: bool = True) -> dict[str, Any]:
    """Columns x, loss, what (training or held-out), kind (each, smooth or checkpoint), and what the pointer shows.

    A row of the kind unigram, without x, is a dashed line across: the loss of a table of word frequencies.
    """
    x, base = _across(axis), _chart()
    colour = alt.Color(
        "what:N", title=None, scale=alt.Scale(domain=[_(TRAINING), _(HELD_OUT)]), legend=_legend("stroke")
    )
    y = alt.Y("loss:Q", title=None, scale=alt.Scale(type="log", nice=False, padding=12), axis=alt.Axis(minExtent=30))
    faint = base.transform_filter("datum.kind == 'each'").mark_line(strokeWidth=1, opacity=0.3)
    smooth = base.transform_filter("datum.kind == 'smooth'").mark_line(strokeWidth=2.2)
    touch = base.transform_filter("datum.kind == 'smooth'").mark_point(size=180, opacity=0)
    marks = base.transform_filter("datum.kind == 'checkpoint'").mark_point(size=70, filled=True, shape="diamond")
    pointed = [
        _shown_x(axis),
        alt.Tooltip("loss:Q", title=_("loss"), format=".3f"),
        alt.Tooltip("what:N", title=_("curve")),
    ]
    scores = [
        alt.Tooltip("step:Q", title=_("checkpoint of step"), format=",d"),
        alt.Tooltip("loss:Q", title=_("held-out loss"), format=".3f"),
        alt.Tooltip("below:Q", title=_("below word frequencies alone"), format=".2f"),
        alt.Tooltip("perplexity:Q", title=_("perplexity"), format=",.1f"),
    ]
    if has_order:
        scores.append(alt.Tooltip("order:Q", title=_("sentence order accuracy"), format=".0%"))
    table = base.transform_filter("datum.kind == 'unigram'").encode(y)
    layers = [
        table.mark_rule(strokeDash=[6, 4], color=GRAY, strokeWidth=1.5).encode(tooltip=pointed[1:]),
        table.mark_text(align="right", baseline="bottom", dy=-3, color=GRAY).encode(
            x=alt.value("width"), text="what:N"
        ),
        faint.encode(x, y, colour),
        smooth.encode(x, y, colour),
        touch.encode(x, y, tooltip=pointed),
        marks.encode(x, y, colour, tooltip=scores),
    ]
    return _finished(alt.layer(*layers), 340, _("Training loss and held-out loss over the run"))


@cached
def lines(axis: str, unit: str, names: tuple[str, ...], form: str = ",.0f", ticks: str = "~s") -> dict[str, Any]:
    """Columns x, value, what (one of `names`). One name alone needs no legend."""
    legend = _legend("stroke") if len(names) > 1 else None
    base = _chart().encode(
        _across(axis, has_title=False),
        alt.Y("value:Q", title=unit, axis=alt.Axis(format=ticks, tickCount=4, minExtent=30)),
        alt.Color("what:N", title=None, scale=alt.Scale(domain=list(names)), legend=legend),
    )
    pointed = [_shown_x(axis), alt.Tooltip("value:Q", title=unit, format=form), alt.Tooltip("what:N", title=_("curve"))]
    layered = alt.layer(base.mark_line(strokeWidth=1.8), base.mark_point(size=140, opacity=0).encode(tooltip=pointed))
    return _finished(layered, SMALL, _(" and ").join(names))


@cached
def learning_rate(axis: str) -> dict[str, Any]:
    """Columns x, value, what (so far, planned)."""
    base = _chart().encode(
        _across(axis, has_title=False),
        alt.Y("value:Q", title=None, axis=alt.Axis(format=".1e", tickCount=4)),
        alt.StrokeDash(
            "what:N", title=None, scale=alt.Scale(domain=[_("so far"), _("planned")]), legend=_legend("stroke")
        ),
        tooltip=[_shown_x(axis), alt.Tooltip("value:Q", title=_("learning rate"), format=".2e")],
    )
    return _finished(base.mark_line(strokeWidth=1.8), SMALL, _("Learning rate"))


@cached
def days() -> dict[str, Any]:
    """Columns day, share, samples."""
    chart = (
        _chart()
        .mark_bar(cornerRadiusEnd=2)
        .encode(
            alt.X(  # days are those of UTC
                "utcyearmonthdate(day):T",
                title=None,
                scale=alt.Scale(type="utc"),
                axis=alt.Axis(format="%d %b", labelOverlap="greedy", tickCount="day"),
            ),
            alt.Y("share:Q", title=None, axis=alt.Axis(format=".1~%")),
            tooltip=[
                alt.Tooltip("utcyearmonthdate(day):T", title=_("day"), format="%d %B"),
                alt.Tooltip("share:Q", title=_("share"), format=".2%"),
                alt.Tooltip("samples:Q", title=_("samples"), format=",d"),
            ],
        )
    )
    return _finished(chart, 200, _("Share of each day's samples"))


@cached
def timeline() -> dict[str, Any]:
    """Columns device, start, end, what (Here now, Paused or Ended), samples: a bar for each session."""
    chart = (
        _chart()
        .mark_bar(height=14, cornerRadius=3)
        .encode(
            alt.X("start:T", title=None, axis=alt.Axis(labelOverlap=True, tickCount=6)),
            alt.X2("end:T"),
            alt.Y("device:N", title=None, sort="-x", axis=alt.Axis(labelLimit=150)),
            alt.Opacity(
                "what:N",
                title=None,
                scale=alt.Scale(domain=[_("Here now"), _("Paused"), _("Ended")], range=[1, 0.7, 0.45]),
                legend=_legend("square"),
            ),
            tooltip=[
                alt.Tooltip("device:N", title=_("device")),
                alt.Tooltip("start:T", title=_("from"), format="%d %b %H:%M"),
                alt.Tooltip("end:T", title=_("to"), format="%d %b %H:%M"),
                alt.Tooltip("samples:Q", title=_("samples"), format=",d"),
            ],
        )
    )
    return _finished(chart, {"step": 30}, _("Sessions over time, by device"))


@cached
def bubbles(colours: tuple[str, ...], inks: tuple[str, str], seen: tuple[str, ...], aspect: float) -> dict[str, Any]:
    """Columns user, seen, samples, share, radius, and two places: wide_x and wide_y on a broad screen, x and y else.

    `inks` are for names on the first of the colours and on the others. Circles keep clear of each other at every
    width: places are scaled alike in both directions.
    """
    broad = f"width > {BROAD}"
    half = f"({broad} ? {aspect} : 1)"
    unit = f"min(width / (2 * {half}), height / 2)"  # pixels
    base = _chart().transform_calculate(
        px=f"{broad} ? datum.wide_x : datum.x",
        py=f"{broad} ? datum.wide_y : datum.y",
        pixels=f"({broad} ? datum.wide_radius : datum.radius) * {unit}",
        label=f"6.4 * length(datum.user) < 2 * ({broad} ? datum.wide_radius : datum.radius) * {unit} ? datum.user : ''",
    )
    sides = {
        "x": [alt.ExprRef(f"-width / 2 / {unit}"), alt.ExprRef(f"width / 2 / {unit}")],
        "y": [alt.ExprRef(f"-height / 2 / {unit}"), alt.ExprRef(f"height / 2 / {unit}")],
    }
    placed = base.encode(
        alt.X("px:Q", axis=None, scale=alt.Scale(domain=sides["x"], nice=False, zero=False)),
        alt.Y("py:Q", axis=None, scale=alt.Scale(domain=sides["y"], nice=False, zero=False)),
    )
    circles = placed.transform_calculate(area="PI * datum.pixels * datum.pixels").mark_circle(opacity=0.95)
    circles = circles.encode(
        alt.Size("area:Q", scale=None, legend=None),
        alt.Color("seen:N", title=None, scale=alt.Scale(domain=list(seen), range=list(colours)), legend=_legend()),
        tooltip=[
            alt.Tooltip("user:N", title=_("name")),
            alt.Tooltip("samples:Q", title=_("samples"), format=",d"),
            alt.Tooltip("share:Q", title=_("share"), format=".2%"),
            alt.Tooltip("seen:N", title=_("last here")),
        ],
    )
    names = placed.mark_text(fontSize=11, fontWeight=600).encode(
        text="label:N", color=alt.condition(f"datum.seen === '{seen[0]}'", alt.value(inks[0]), alt.value(inks[1]))
    )
    return _finished(alt.layer(circles, names).configure_view(stroke=None), 420, _("People, sized by contribution"))


@cached
def bars(noun: str, unit: str, form: str = ",.0f") -> dict[str, Any]:
    """Columns what (which `noun`), value: a bar for each, the longest first."""
    base = _chart().encode(
        alt.Y("what:N", title=None, sort="-x", axis=alt.Axis(labelLimit=210, ticks=False, domain=False)),
        alt.X("value:Q", title=None, axis=None),
        tooltip=[alt.Tooltip("what:N", title=noun), alt.Tooltip("value:Q", title=unit, format=form)],
    )
    figures = base.mark_text(align="left", dx=5, color=GRAY).encode(text=alt.Text("value:Q", format=form))
    return _finished(alt.layer(base.mark_bar(cornerRadiusEnd=3, height=16), figures), {"step": 28}, unit)


@cached
def experts(health: tuple[str, ...]) -> dict[str, Any]:
    """Columns row, column, expert, health (served, copied, absent), host, copies, steps: a square for each expert."""
    chart = (
        _chart()
        .mark_rect(cornerRadius=3, stroke="transparent", strokeWidth=2)
        .encode(
            alt.X("column:N", title=None, sort=None, axis=None, scale=alt.Scale(padding=0.12)),
            alt.Y("row:N", title=None, sort=None, axis=None, scale=alt.Scale(padding=0.12)),
            alt.Color(
                "health:N",
                title=None,
                scale=alt.Scale(domain=list(health), range=["#009e73", "#e69f00", GRAY]),
                legend=_legend("square"),
            ),
            tooltip=[
                alt.Tooltip("expert:N", title=_("expert")),
                alt.Tooltip("health:N", title=_("now")),
                alt.Tooltip("host:N", title=_("served by")),
                alt.Tooltip("copies:N", title=_("copied by")),
                alt.Tooltip("steps:Q", title=_("steps"), format=",d"),
            ],
        )
    )
    return _finished(chart, SMALL, _("Experts by their place in the grid, and whether each is served"))


def _chart() -> alt.Chart:
    return alt.Chart(alt.NamedData("source"))


def _across(axis: str, has_title: bool = True) -> alt.X:
    if axis == TIME:
        return alt.X("x:T", title=None, axis=alt.Axis(labelOverlap=True, tickCount=7))
    title = _("global step") if has_title else None
    return alt.X("x:Q", title=title, scale=alt.Scale(nice=False), axis=alt.Axis(format="~s", tickCount=7))


def _shown_x(axis: str) -> alt.Tooltip:
    if axis == TIME:
        return alt.Tooltip("x:T", title=_("time"), format="%d %B %H:%M")
    return alt.Tooltip("x:Q", title=_("global step"), format=",d")


def _legend(symbol: str = "circle") -> alt.Legend:
    return alt.Legend(
        orient="top", direction="horizontal", labelLimit=220, symbolType=symbol, symbolOpacity=1, symbolStrokeWidth=3
    )


def _finished(chart: Any, height: Any, description: str) -> dict[str, Any]:
    """As a dictionary, without the table, which Streamlit adds."""
    whole: dict[str, Any] = chart.properties(height=height, description=description).to_dict()
    whole.pop("data", None)
    for layer in whole.get("layer", []):
        layer.pop("data", None)
    return whole
