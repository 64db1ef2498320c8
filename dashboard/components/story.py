"""The whole run as a story for the replay: what is drawn, and what is told at each moment of it. Pure."""

import datetime
import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from dashboard import texts
from dashboard.api.answers import Fill, History, Leader, Sentence
from dashboard.charts.curve_tables import between, smoothed
from dashboard.views.sentences import BLANK, LONGEST_TOKEN, MASK

MOMENTS = 300  # of a replay of half a minute: ten a second
SMOOTHING = 0.8
SENTENCES = 3  # that are told
MOST_NEWCOMERS = 600

Story = dict[str, Any]  # as the browser gets it
Point = tuple[float, float]


def make_story(history: History, fills: Sequence[Fill], leaders: Sequence[Leader], zone: datetime.tzinfo) -> Story:
    """What `replay.js` shows; empty while the run has no two moments yet.

    Places across are from 0, the beginning, to 1, now; heights from 0, the top, to 1.
    """
    steps = [(one.time, one) for one in history.steps]
    trained = [(time, one.loss) for time, one in steps if one.loss is not None and math.isfinite(one.loss)]
    if len(trained) < 2:
        return {}
    begin = min([steps[0][0], *(one.time for one in history.minutes[:1])])
    end = steps[-1][0]
    if end <= begin:
        return {}
    held_out = [(one.time, one.loss) for one in history.evaluations if math.isfinite(one.loss) and one.time <= end]
    smooth = smoothed([loss for _, loss in trained], SMOOTHING)
    losses = [(time, loss) for (time, _), loss in zip(trained, smooth, strict=True)]
    shown = [loss for _, loss in (*losses, *held_out)] + (
        [] if history.unigram_loss is None else [history.unigram_loss]
    )
    top, bottom = max(shown), min(shown)

    def across(time: float) -> float:
        return round(min(1.0, max(0.0, (time - begin) / (end - begin))), 5)

    def height(loss: float) -> float:
        span = math.log(top / bottom) if bottom > 0 and top > bottom else 1.0
        return round(math.log(top / max(loss, 1e-9)) / span, 4) if bottom > 0 else 0.5

    times = np.linspace(begin, end, MOMENTS + 1).tolist()
    counted = _counted(history)
    people = [(one.time, one.users) for one in history.minutes]
    most = max((users for _, users in people), default=0.0)
    newcomers = sorted((one.first_seen, one.user) for one in leaders if one.first_seen is not None)
    told = np.linspace(0, len(newcomers) - 1, min(len(newcomers), MOST_NEWCOMERS)).astype(int)
    step_at = between(times, [(begin, 0.0), *((time, float(one.step)) for time, one in steps)])
    fill_steps = [one.step for one in fills]
    return {
        "loss": [(across(time), height(loss)) for time, loss in losses],
        "heldOut": [(across(time), height(loss)) for time, loss in held_out],
        "table": None if history.unigram_loss is None else height(history.unigram_loss),
        "scale": [f"{top:.2f}", f"{bottom:.2f}"],
        "people": [(across(time), round(1 - users / most, 4)) for time, users in people] if most else [],
        "mostPeople": texts.number(math.ceil(most)),
        "newcomers": [(across(time), texts.line(user, 24)) for time, user in (newcomers[one] for one in told)],
        "fills": [[_told(one) for one in fill.sentences[:SENTENCES]] for fill in fills],
        "moments": {
            "day": [texts.day(time, zone) for time in times],
            "step": [round(step) for step in step_at],
            "samples": [round(one) for one in between(times, [(begin, 0.0), *counted])],
            "loss": [round(one, 2) for one in between(times, losses)],
            "people": [round(one) for one in between(times, people)] if people else [0] * len(times),
            "fill": [bisect_right(fill_steps, step) - 1 for step in step_at],
        },
    }


def _counted(history: History) -> list[Point]:
    """All samples until each step."""
    found, total, before = list[Point](), 0.0, -1
    for one in history.steps:
        total, before = total + one.samples * max(0, one.step - before), one.step
        found.append((one.time, total))
    return found


def _told(sentence: Sentence) -> tuple[str, str, str]:
    """What is before the gap, in it, and after it."""
    before, mask, after = sentence.text.partition(MASK)
    word = texts.line(sentence.guesses[0].token, LONGEST_TOKEN) if sentence.guesses else ""
    return _edged(before), (word or BLANK) if mask else "", _edged(after.replace(MASK, BLANK))


def _edged(text: str) -> str:
    """A part of a sentence as a line, with the spaces that keep it apart from the next."""
    inner = texts.line(text)
    left, right = (" " if edge.isspace() else "" for edge in (text[:1], text[-1:]))
    return f"{left}{inner}{right}" if inner else left
