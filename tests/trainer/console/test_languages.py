"""The console in Bengali: every figure is there, no line is too wide, and no letter is cut in two."""

import unicodedata
from dataclasses import replace

import pytest
from rich.text import Text

from swarm.language import VARIABLE
from tests.trainer.console.test_view import LONG_BENGALI, VIEW, drawn
from trainer.console import terminal_text
from trainer.console.terminal_text import fill, fit, width
from trainer.console.view import plain_line

SIGNS = "Mn", "Mc"  # categories of what belongs to the letter before it


@pytest.fixture(autouse=True)
def in_bengali(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "bn")


def test_the_live_view_is_whole_at_80_columns() -> None:
    view = replace(VIEW, client_mode=True, averaging_failures=2, experts=(4, 8), status="প্রশিক্ষণ চলছে")
    lines = drawn(view, trend=(5.0, 4.5, 4.3))
    text = "\n".join(lines)
    for part in (
        "bengali  rosa, ক্লায়েন্ট মোড",
        "গ্লোবাল ধাপ 1,234, মোট 125,000",
        "1,024 / 4,096 নমুনা",
        "4.321 █▃▁",
        "12টি যন্ত্র",
        "9,876 নমুনা, 45/সে.",
        "5,054,464 নমুনা, 512/সে.",
        "31 রাউন্ড, ব্যর্থ 2",
        "8টির মধ্যে 4টি চালু",
    ):
        assert part in text
    assert max(map(width, lines)) <= 80
    assert "…" not in text


@pytest.mark.parametrize("columns", [20, 30, 43, 59, 64, 80, 200])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    view = replace(VIEW, name=LONG_BENGALI, status=LONG_BENGALI, client_mode=True, experts=(4, 8))
    lines = drawn(view, columns=columns, trend=tuple(map(float, range(24))), messages=(LONG_BENGALI,) * 3)
    assert max(map(width, lines)) <= columns
    assert not any(has_broken_letter(line) for line in lines)


def test_the_plain_line_is_in_bengali_too() -> None:
    line = plain_line(replace(VIEW, averaging_failures=2))
    assert line.startswith(
        "গ্লোবাল ধাপ 1,234, মোট 125,000 | পরের ধাপের 25% | লস 4.321 | 12টি যন্ত্র | আপনি 9,876 নমুনা, 45/সে. | "
    )


@pytest.mark.parametrize("text", ["কিংকর্তব্যবিমূঢ়", "স্বেচ্ছাসেবক", "র\u200d্যাব", "क्षत्रिय", "ক্ষ্ম"])
def test_a_cut_leaves_letters_with_their_signs_and_conjuncts_whole(text: str) -> None:
    for columns in range(width(text)):
        cut = fit(text, columns)
        assert width(cut) <= columns
        assert not has_broken_letter(cut)
        rest = text[len(cut) - 1 :] if cut else "x"
        assert unicodedata.category(rest[0]) not in SIGNS and rest[0] not in "\u200c\u200d"


def test_of_a_long_text_each_letter_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []

    def counted(text: str) -> int:
        measured.append(len(text))
        return width(text)

    monkeypatch.setattr(terminal_text, "width", counted)
    assert fit("কি" * 500, 40) == "কি" * 19 + "…"
    assert sum(measured) == 1000


def test_filled_text_takes_the_columns_that_terminals_draw_at_most_and_keeps_its_colours() -> None:
    text = Text.assemble(("লস", "bold"), " ", ("৪", "cyan"))
    filled = fill(text, 9)
    assert width(filled.plain) == 9
    assert [(filled.plain[span.start : span.end], span.style) for span in filled.spans] == [
        ("লস", "bold"),
        ("৪", "cyan"),
    ]
    assert fill(Text("কিংকর্তব্যবিমূঢ়"), 5).plain.rstrip().endswith("…")


def has_broken_letter(line: str) -> bool:
    """Whether a cut follows the sign that joins two consonants."""
    at = line.find("…")
    return at > 0 and (unicodedata.combining(line[at - 1]) == 9 or line[at - 1] in "\u200c\u200d")
