"""The first page: what the run is, how to join, how far it is, and a glimpse of what the model has learned."""

import os
import time
from urllib.parse import quote, urlsplit

import streamlit as st

from dashboard import frame, navigation, page_context, texts
from dashboard.api.answers import Fill, LastHour, Progress, Run
from dashboard.language import _
from dashboard.views.sentences import show_sentence

COLAB, KAGGLE = "https://colab.research.google.com", "https://www.kaggle.com"
NAMES_SHOWN = 12
GLIMPSES = 2  # sentences
ARCHITECTURES = {"albert": "ALBERT", "modernbert": "ModernBERT"}


def show() -> None:
    """The whole page."""
    run = page_context.coordinator().run().value
    what, join = st.columns([3, 2], gap="large")
    with what:
        _what_it_is(run)
        frame.keep_new(_how_far)
        frame.keep_new(_who_is_here, 6)
    frame.keep_new(_figures)
    frame.paint_first()
    with join.container(key="way-in"):
        frame.keep_new(_join, frame.HEAD_INTERVALS)
    frame.keep_new(_glimpse, 6)


def _what_it_is(run: Run) -> None:
    if run.description:
        st.markdown(texts.plain(run.description))
    layers, width = run.model.get("num_hidden_layers"), run.model.get("hidden_size")
    shape = length = ""
    if layers and width:
        shape = _("{layers} layers of width {width}").format(layers=f"{layers:.0f}", width=texts.number(width))
    if run.max_length:
        length = _("{tokens} tokens at a time").format(tokens=texts.number(run.max_length))
    facts = [ARCHITECTURES.get(run.architecture, ""), texts.plain(texts.language(run.language)), shape, length]
    st.caption(" · ".join(fact for fact in facts if fact))


def _how_far() -> None:
    progress = page_context.coordinator().progress().value
    total = max(1, progress.total_steps)
    st.progress(
        min(1.0, progress.step / total),
        _("**Global step {step}** of {total} · {share}").format(
            step=f"{progress.step:,}", total=f"{total:,}", share=texts.percent(min(1.0, progress.step / total))
        ),
    )
    if progress.finished or not progress.target_batch_size:
        return
    gathered = min(1.0, progress.step_samples / progress.target_batch_size)
    st.progress(
        gathered,
        _("The next step: {gathered} of {needed} samples").format(
            gathered=f"{progress.step_samples:,}", needed=f"{progress.target_batch_size:,}"
        ),
    )


def _who_is_here() -> None:
    coordinator = page_context.coordinator()
    here = [one for one in coordinator.leaders("run").value if one.sessions_present][:NAMES_SHOWN]
    if here:
        names = ", ".join(texts.name(one.user) for one in here)
        more = coordinator.progress().value.users_present - len(here)
        if more > 0:
            names = _("{names} and {n} more").format(names=names, n=texts.number(more))
        st.markdown(_("**Here now:** {names}").format(names=names))
    st.page_link(navigation.page("people"), label=_("Who makes it happen"), icon=":material/groups:")


def _join() -> None:
    coordinator = page_context.coordinator()
    run, progress = coordinator.run().value, coordinator.progress().value
    with st.container(border=True, key="join"):
        if progress.finished:
            st.subheader(_("Finished"), anchor=False)
            st.markdown(_("This run needs no more computers. Thank you to everybody who took part."))
            return
        st.subheader(_("Join"), anchor=False)
        st.markdown(_who_may(run, progress))
        join = run.join or f"sahaj join {page_context.url()}"
        st.code(run.one_line or join, language=None, wrap_lines=True)
        notebook = os.environ.get(page_context.NOTEBOOK, "").strip() or run.notebook_at_hub or run.notebook
        colab, kaggle = notebook_links(notebook)
        with st.container(horizontal=True):
            st.link_button("Colab", colab, icon=":material/open_in_new:")
            st.link_button("Kaggle", kaggle, icon=":material/open_in_new:")
            if has_download := run.notebook.startswith(("http://", "https://")):
                st.link_button(_("Notebook"), run.notebook, icon=":material/download:")
            if run.one_line:
                with st.popover(_("Other ways"), icon=":material/terminal:"):
                    _other_ways(run, join)
        free = _("It is free, and you may leave at any moment.")
        upload = _("For Colab, first download the notebook with the button above, then choose File → Upload notebook.")
        st.caption(f"{free} {upload}" if has_download and colab.endswith("#create=true") else free)


def _other_ways(run: Run, join: str) -> None:
    """What to type where the program is installed already, or by another tool."""
    st.markdown(
        _(
            "Run that command in a terminal on Linux, on a Mac with Apple silicon, or in WSL on Windows. To use uv "
            "instead:"
        )
    )
    constraints = f"{run.program.rpartition('/')[0]}/constraints.txt"
    uvx = f"uvx --torch-backend auto --constraints {constraints} --from {run.program} {join}"
    st.code(uvx, language=None, wrap_lines=True)
    st.markdown(_("If the program is already installed:"))
    st.code(join, language=None, wrap_lines=True)


def _who_may(run: Run, progress: Progress) -> str:
    """Whether the run accepts the reader, in one sentence."""
    if progress.paused:
        return ":material/pause_circle: " + _("Closed to newcomers for now: please come back later.")
    if run.access.open:
        return ":material/lock_open: " + _("Open to everybody. Run the command below to begin.")
    groups = [
        _("members of {organization}").format(organization=f"**{texts.name(one)}**") for one in run.access.organizations
    ]
    if run.access.by_list:
        groups.append(_("people on the organizer's list"))
    who = _(" and ").join(groups) or _("people whom the organizer lets in")
    needed = _("For {who}. You need a Hugging Face token; one without any permission is enough.")
    return f":material/badge: {needed.format(who=who)}"


def notebook_links(notebook: str) -> tuple[str, str]:
    """Where Colab and Kaggle open a notebook; where they cannot reach it, the place to begin at.

    Colab opens files of GitHub and of the Hub, Kaggle whatever can be fetched without a page around it.
    """
    address = notebook.strip()
    parts = urlsplit(address)
    colab, kaggle = f"{COLAB}/#create=true", f"{KAGGLE}/code/new"
    if parts.scheme != "https" or not parts.path.endswith(".ipynb"):
        return colab, kaggle
    if parts.hostname == "github.com":
        colab = f"{COLAB}/github{quote(parts.path)}"
    elif parts.hostname == "huggingface.co" and "/blob/" in parts.path:
        colab = f"{COLAB}/#fileId={quote(address, safe='/')}"
        address = address.replace("/blob/", "/resolve/", 1)
    return colab, f"{KAGGLE}/kernels/welcome?src={quote(address, safe=':/')}"


def _figures() -> None:
    progress = page_context.coordinator().progress().value
    gained = progress.last_hour or LastHour()
    is_long = gained.seconds > 3500
    lately = _("{change} in {n} h") if is_long else _("{change} in {n} min")
    duration = f"{gained.seconds / (3600 if is_long else 60):.0f}"
    step = _("One update of the model, made from everybody's samples together")
    sample = _("Pieces of text with hidden words that computers have trained on")
    token = _("Words and parts of words in these samples")
    figures = (
        (_("Global step"), f"{progress.step:,}", gained.steps, step),
        (_("Samples"), texts.number(progress.samples), gained.samples, sample),
        (_("Tokens read"), texts.number(progress.tokens), gained.tokens, token),
        (_("People here now"), texts.number(progress.users_present), gained.users_present, None),
        (_("People so far"), texts.number(progress.users_ever), gained.users_ever, None),
        (_("Machine hours"), texts.number(progress.hours), gained.hours, None),
    )
    with st.container(key="figures"):
        for label, value, change, meaning in figures:
            shown = texts.change(change)
            st.metric(
                label,
                value,
                shown and lately.format(change=shown, n=duration),
                delta_color="normal" if change and change > 0 else "off",
                delta_arrow="down" if change and change < 0 else "up",  # the sign may stand inside the words
                border=True,
                height="stretch",
                help=meaning,
            )
        _loss(progress)
        _finish(progress)


def _loss(progress: Progress) -> None:
    value = texts.DASH if progress.eval_loss is None else f"{progress.eval_loss:.2f}"
    below = texts.below_frequencies(progress.below_unigram)
    training = None if progress.loss is None else _("training {nats}").format(nats=f"{progress.loss:.2f}")
    meaning = _(
        "The loss says how badly the model guesses hidden words in text that it was not trained on; lower is better."
    )
    if progress.unigram_loss is not None:
        alone = _(
            "Guessing from word frequencies alone gives {nats} nats: below that, the model knows more than which words "
            "are common."
        )
        meaning = f"{meaning} {alone.format(nats=f'{progress.unigram_loss:.2f}')}"
    st.metric(
        _("Held-out loss"),
        value,
        below or training,
        delta_color="off",
        delta_arrow="off",
        border=True,
        height="stretch",
        help=meaning,
    )


def _finish(progress: Progress) -> None:
    """The estimate, at the pace of the last hour."""
    now, value, when = time.time(), texts.DASH, None
    if progress.finished:
        st.metric(_("Finished"), _("yes"), border=True, height="stretch")
        return
    if progress.finish is not None:
        value = texts.span(max(60.0, progress.finish - now))
        when = texts.moment(progress.finish, page_context.zone(), now)
    st.metric(_("Time left"), value, when, delta_color="off", delta_arrow="off", border=True, height="stretch")


def _glimpse() -> None:
    from dashboard.charts import specifications as charts  # the figures above do not wait for what draws
    from dashboard.charts.curve_tables import loss_table

    coordinator = page_context.coordinator()
    history, fills = coordinator.history(), coordinator.fills()
    curve, words = st.columns([3, 2], gap="large")
    with curve:
        st.subheader(_("The model learns"), anchor=False)
        if history.value.steps:
            charts.draw(charts.loss(charts.STEP), loss_table(history, [], charts.STEP, 0.9), "glimpse")
        else:
            begins = _("The curve begins with the first global step")
            frame.nothing_yet(begins, _("It takes a few people and a few minutes."))
        st.page_link(navigation.page("learning"), label=_("See it learn"), icon=":material/show_chart:")
    with words:
        st.subheader(_("What it fills in"), anchor=False)
        _newest_words(fills.value)


def _newest_words(fills: list[Fill]) -> None:
    if not fills or not fills[-1].sentences:
        later = _("Then you see the model guess missing words.")
        frame.nothing_yet(_("Sentences come with the first checkpoint"), later)
        return
    for sentence in fills[-1].sentences[:GLIMPSES]:
        show_sentence(sentence, guesses=3)
    guesses = _("Its best guesses for a missing word, at global step {step}.")
    st.caption(guesses.format(step=f"{fills[-1].step:,}"))
