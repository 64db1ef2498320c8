"""Tables that charts draw, from the run's history. Each is made once for all readers."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from dashboard.api.answers import Checkpoint, History, Minute
from dashboard.api.client import Found
from dashboard.charts.specifications import FREQUENCIES, HELD_OUT, TIME, TRAINING
from dashboard.language import _, current

MOST_CHECKPOINTS = 60  # marked on the curve
LAST = 2.0**32  # unix seconds, in the year 2106
KEPT = 24  # tables: some axes and smoothings of the newest history


def moments(times: Sequence[float]) -> pd.Series:
    """Unix times as moments (UTC); none where a machine has said what no clock shows."""
    known = pd.Series(times, dtype=float)
    return pd.to_datetime(known.where(known.between(0, LAST)), unit="s", utc=True)


def loss_table(history: Found[History], checkpoints: list[Checkpoint], axis: str, smoothing: float) -> pd.DataFrame:
    """Rows of both losses for `charts.loss`. `smoothing` is the weight of what was before, 0 to below 1."""
    steps = tuple(one.step for one in checkpoints)
    return _loss_table(history.at, current(), steps, axis, smoothing, history.value, checkpoints)


@st.cache_resource(show_spinner=False, max_entries=KEPT)
def _loss_table(
    at: float,
    language: str,
    steps: tuple[int, ...],
    axis: str,
    smoothing: float,
    _history: History,
    _checkpoints: list[Checkpoint],
) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    trained = [one for one in _history.steps if one.loss is not None and math.isfinite(one.loss)]
    places = [one.time if axis == TIME else float(one.step) for one in trained]
    smooth = smoothed([one.loss or 0.0 for one in trained], smoothing)
    for place, one, even in zip(places, trained, smooth, strict=True):
        if smoothing:
            rows.append({"x": place, "loss": one.loss, "what": _(TRAINING), "kind": "each"})
        rows.append({"x": place, "loss": even, "what": _(TRAINING), "kind": "smooth"})
    held_out = [one for one in _history.evaluations if math.isfinite(one.loss)]
    rows += [
        {"x": one.time if axis == TIME else one.step, "loss": one.loss, "what": _(HELD_OUT), "kind": "smooth"}
        for one in held_out
    ]
    times = {one.step: one.time for one in held_out}
    for mark in _checkpoints[-MOST_CHECKPOINTS:]:
        if mark.eval_loss is None or (axis == TIME and mark.step not in times):
            continue
        place = times[mark.step] if axis == TIME else mark.step
        scores = {
            "step": mark.step,
            "below": mark.below_unigram,
            "perplexity": mark.perplexity,
            "order": mark.sentence_order_accuracy,
        }
        rows.append({"x": place, "loss": mark.eval_loss, "what": _(HELD_OUT), "kind": "checkpoint", **scores})
    if (unigram := _history.unigram_loss) is not None:
        rows.append({"loss": unigram, "what": _(FREQUENCIES), "kind": "unigram"})
    columns = ["x", "loss", "what", "kind", "step", "below", "perplexity", "order"]
    return _typed(pd.DataFrame(rows, columns=columns), axis)


def between(places: Sequence[float], known: Sequence[tuple[float, float]]) -> list[float]:
    """Values at some places on the lines between known points, which rise; NaN where nothing is known."""
    if not known:
        return [math.nan for _ in places]
    at, values = [place for place, _ in known], [value for _, value in known]
    return [float(value) for value in np.interp(np.asarray(places, dtype=float), at, values)]


def smoothed(values: Sequence[float], weight: float) -> list[float]:
    """Exponential moving average, in which the first values weigh no more than others (Kingma & Ba 2015, section 3)."""
    mean, total, found = 0.0, 0.0, []
    for value in values:
        mean, total = weight * mean + (1 - weight) * value, weight * total + (1 - weight)
        found.append(mean / total)
    return found


@st.cache_resource(show_spinner=False, max_entries=KEPT)
def swarm_table(at: float, axis: str, fields: tuple[tuple[str, str], ...], _history: History) -> pd.DataFrame:
    """Rows of some fields of `Minute`, each under a name of its own."""
    minutes = _history.minutes
    known = [(one.time, float(one.step)) for one in _history.steps]
    times = [one.time for one in minutes]
    places = times if axis == TIME else between(times, known)
    rows = [
        {"x": place, "value": value_of(one, field), "what": name}
        for field, name in fields
        for place, one in zip(places, minutes, strict=True)
    ]
    return _typed(pd.DataFrame(rows, columns=["x", "value", "what"]), axis)


def value_of(minute: Minute, field: str) -> float | None:
    """A field, or `failed`, the fraction of rounds that failed."""
    if field == "failed":
        return minute.averaging_failures / minute.averaging_rounds if minute.averaging_rounds else None
    value: float | None = getattr(minute, field)
    return value


@st.cache_resource(show_spinner=False, max_entries=KEPT)
def rate_table(at: float, axis: str, now: int, language: str, _history: History) -> pd.DataFrame:
    """The learning rate until the global step `now`, and as it is planned; against time only what is past."""
    plan = _history.learning_rate
    if axis == TIME:
        plan = [one for one in plan if one.step <= now]
    known = [(float(one.step), one.time) for one in _history.steps]
    steps = [float(one.step) for one in plan]
    places = between(steps, known) if axis == TIME else steps
    rows = [
        {"x": place, "value": one.rate, "what": _("so far") if one.step <= now else _("planned")}
        for place, one in zip(places, plan, strict=True)
    ]
    return _typed(pd.DataFrame(rows, columns=["x", "value", "what"]), axis)


def _typed(table: pd.DataFrame, axis: str) -> pd.DataFrame:
    if axis == TIME:
        table["x"] = pd.to_datetime(table["x"], unit="s", utc=True)
    return table
