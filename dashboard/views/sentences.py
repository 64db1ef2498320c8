"""Fixed sentences with a masked word, and what the model puts there: anyone sees it learn the language."""

import streamlit as st

from dashboard import texts
from dashboard.api.answers import Fill, Sentence
from dashboard.language import _

MASK = "[MASK]"
BLANK = "▁▁▁▁"
STOPS = 6  # checkpoints whose best guess is told one after the other
LONGEST_TOKEN = 40  # characters


def show_sentence(sentence: Sentence, guesses: int = 5, way: str = "") -> None:
    """One sentence, its best guesses with their probabilities, and how the best guess came to be."""
    with st.container(border=True):
        st.markdown(f"##### {with_best_guess(sentence)}", text_alignment="left")
        if not sentence.guesses:
            st.caption(_("no guesses yet"))
        for guess in sentence.guesses[:guesses]:
            sure = min(1.0, max(0.0, guess.probability))
            st.progress(sure, f"{texts.plain(guess.token, LONGEST_TOKEN)} · {texts.percent(sure)}")
        if way:
            st.caption(way)


def with_best_guess(sentence: Sentence) -> str:
    """The sentence in Markdown, its blank filled with the likeliest word."""
    before, mask, after = sentence.text.partition(MASK)
    if not mask:
        return texts.plain(before)
    best = texts.plain(sentence.guesses[0].token, LONGEST_TOKEN) if sentence.guesses else ""
    word = f":primary[**{best}**]" if best else BLANK
    return f"{texts.plain(before)} {word} {texts.plain(after.replace(MASK, BLANK))}".strip()


def way_to(fills: list[Fill], number: int, last: int) -> str:
    """How the best guess for a sentence changed from checkpoint to checkpoint, up to the one at index `last`."""
    found: list[tuple[int, str]] = []
    for fill in fills[: last + 1]:
        if number < len(fill.sentences) and fill.sentences[number].guesses:
            best = texts.plain(fill.sentences[number].guesses[0].token, LONGEST_TOKEN)
            if not found or found[-1][1] != best:
                found.append((fill.step, best))
    if len(found) < 2:
        return ""
    shown = found if len(found) <= STOPS else [found[0], *found[-(STOPS - 1) :]]
    steps = (_("{word} (step {step})").format(word=f"**{best}**", step=f"{step:,}") for step, best in shown)
    return _("Best guess: {way}").format(way=" → ".join(steps))
