"""How the model learns: losses, learning rate, speed and peers over the run, and what it fills into sentences."""

from collections.abc import Callable

import pandas as pd
import streamlit as st

from dashboard import frame, page_context
from dashboard.api.answers import Checkpoint, Fill, History
from dashboard.api.client import Found
from dashboard.charts import curve_tables as tables
from dashboard.charts import specifications as charts
from dashboard.language import _, current, mark
from dashboard.views.sentences import show_sentence, way_to

STEP, MOVED = "fill-step", "fill-moved"  # in the session: the slider, and where its reader left it
SMOOTHINGS = {mark("None"): 0.0, mark("Some"): 0.8, mark("Strong"): 0.95}


def show() -> None:
    """The whole page."""
    frame.keep_new(_losses, 6)
    frame.keep_new(_sentences, 12)
    frame.keep_new(_swarm, 6)


def _axis(key: str) -> str:
    axes = [charts.STEP, charts.TIME]
    return st.segmented_control(_("Horizontal axis"), axes, default=charts.STEP, format_func=_, key=key) or charts.STEP


def _losses() -> None:
    coordinator = page_context.coordinator()
    history, checkpoints = coordinator.history(), coordinator.checkpoints().value
    st.subheader(_("Loss"), anchor=False)
    if not history.value.steps and not history.value.evaluations:
        begins = _("The curve begins with the first global step")
        frame.nothing_yet(begins, _("It takes a few people and a few minutes."))
        return
    with st.container(horizontal=True, gap="large"):
        axis = _axis("loss-axis")
        smoothings = list(SMOOTHINGS)
        chosen = (
            st.segmented_control(_("Smoothing"), smoothings, default="Some", format_func=_, key="smoothing") or "None"
        )
    has_order = any(one.sentence_order_accuracy is not None for one in checkpoints)
    charts.draw(charts.loss(axis, has_order), tables.loss_table(history, checkpoints, axis, SMOOTHINGS[chosen]), "loss")
    meaning = _(
        "How badly the model guesses hidden words, in nats (a unit of surprise); lower is better. The held-out loss is "
        "measured on text that nobody trains on; ◆ marks checkpoints, saved copies of the model."
    )
    if (unigram := history.value.unigram_loss) is not None:
        alone = _(
            "The dashed line, at {nats} nats, is the loss of guessing from word frequencies alone on the same text: "
            "below it, the model knows more than which words are common."
        )
        meaning = f"{meaning} {alone.format(nats=f'{unigram:.2f}')}"
    st.caption(meaning)
    if checkpoints and st.toggle(_("Checkpoints and their scores"), key="show-scores"):
        _scores(checkpoints)


def _scores(checkpoints: list[Checkpoint]) -> None:
    order = _("Sentence order accuracy")
    table = pd.DataFrame(
        {
            _("Global step"): [one.step for one in checkpoints],
            _("Held-out loss"): [one.eval_loss for one in checkpoints],
            _("Below word frequencies alone"): [one.below_unigram for one in checkpoints],
            _("Perplexity"): [one.perplexity for one in checkpoints],
            order: [one.sentence_order_accuracy for one in checkpoints],
            _("Saved"): pd.to_datetime(
                pd.Series([one.saved_at for one in checkpoints], dtype="str"), utc=True, errors="coerce"
            ).dt.tz_convert(str(page_context.zone())),
        }
    )[::-1]
    if table[order].isna().all():  # the model does not learn it
        del table[order]
    columns = {
        _("Global step"): st.column_config.NumberColumn(format="localized"),
        _("Held-out loss"): st.column_config.NumberColumn(format="%.3f"),
        _("Below word frequencies alone"): st.column_config.NumberColumn(format="%.2f"),
        _("Perplexity"): st.column_config.NumberColumn(format="%.1f"),
        order: st.column_config.NumberColumn(format="percent"),
        _("Saved"): st.column_config.DatetimeColumn(format="D MMM YYYY, HH:mm"),
    }
    st.dataframe(table, hide_index=True, column_config=columns, key="scores")


def _sentences() -> None:
    fills = page_context.coordinator().fills().value
    st.subheader(_("What it fills in"), anchor=False)
    if not fills:
        later = _("Then you see the model guess missing words.")
        frame.nothing_yet(_("Sentences come with the first checkpoint"), later)
        return
    last = _chosen(fills)
    sentences = list(enumerate(fills[last].sentences))
    for left in range(0, len(sentences), 2):
        for column, (number, sentence) in zip(st.columns(2), sentences[left : left + 2], strict=False):
            with column:
                show_sentence(sentence, way=way_to(fills, number, last))


def _chosen(fills: list[Fill]) -> int:
    """The index of the checkpoint that the reader looks at: the newest one until they move."""
    if len(fills) == 1:
        st.caption(_("At global step {step}.").format(step=f"{fills[0].step:,}"))
        return 0
    steps = [fill.step for fill in fills]
    moved = st.session_state.get(MOVED)
    st.session_state[STEP] = moved if moved in steps else steps[-1]

    def remember() -> None:
        chosen = st.session_state[STEP]
        st.session_state[MOVED] = None if chosen == steps[-1] else chosen

    step = st.select_slider(_("At global step"), steps, format_func="{:,}".format, key=STEP, on_change=remember)
    return steps.index(step)


def _swarm() -> None:
    history = page_context.coordinator().history()
    now = page_context.coordinator().progress().value.step
    st.subheader(_("The swarm"), anchor=False)
    if not history.value.minutes:
        recorded = _("Speed and the number of devices are recorded every minute.")
        frame.nothing_yet(_("Nothing has been measured yet"), recorded)
        return
    axis = _axis("swarm-axis")
    parts: list[Callable[[], None]] = [
        lambda: _line(history, axis, _("samples/s"), ("samples_per_second", _("Samples a second"))),
        lambda: _line(history, axis, _("tokens/s"), ("tokens_per_second", _("Tokens a second"))),
        lambda: _line(history, axis, "", ("sessions", _("Devices")), ("users", _("People"))),
        lambda: _rate(history, axis, now),
        lambda: _line(
            history, axis, _("seconds"), ("averaging_seconds", _("Seconds per averaging round")), form=",.1f"
        ),
        lambda: _line(history, axis, "", ("failed", _("Rounds that failed")), form=".2%", ticks=".0%"),
    ]
    for left in range(0, len(parts), 2):
        for column, part in zip(st.columns(2, gap="medium"), parts[left : left + 2], strict=False):
            with column:
                part()


def _line(
    history: Found[History], axis: str, unit: str, *fields: tuple[str, str], form: str = ",.0f", ticks: str = "~s"
) -> None:
    names = tuple(name for _, name in fields)
    st.markdown(f"**{_(' and ').join(names)}**")
    table = tables.swarm_table(history.at, axis, fields, history.value)
    charts.draw(charts.lines(axis, unit, names, form, ticks), table, f"swarm-{fields[0][0]}")


def _rate(history: Found[History], axis: str, now: int) -> None:
    st.markdown("**" + _("Learning rate") + "**")
    charts.draw(
        charts.learning_rate(axis), tables.rate_table(history.at, axis, now, current(), history.value), "learning-rate"
    )
