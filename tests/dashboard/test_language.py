"""What the pages say in other languages than English."""

import string
from collections.abc import Callable
from pathlib import Path

import pytest
import streamlit as st
from babel.messages.catalog import Catalog, Message
from babel.messages.extract import DEFAULT_KEYWORDS, extract_from_dir
from streamlit.testing.v1 import AppTest

import dashboard
from dashboard.language import NAMES, SOURCE, VARIABLE, catalogue, current, known, several
from tests.dashboard.test_pages import APP
from tests.recorded_month.serving import Served
from tests.support.waiting import PATIENCE

OTHERS = sorted(NAMES.keys() - {SOURCE})
KEYWORDS = DEFAULT_KEYWORDS | {"mark": None, "several": (1, 2)}


def in_the_code() -> set[str | tuple[str, ...]]:
    """All texts, as the pages have them."""
    found = extract_from_dir(Path(dashboard.__file__).parent, keywords=KEYWORDS)
    return {text for _, _, text, _, _ in found}


def translated(code: str) -> dict[str | tuple[str, ...], Message]:
    return {
        message.id if isinstance(message.id, str) else tuple(message.id): message
        for message in catalogue(code)
        if message.id
    }


@pytest.mark.parametrize("code", OTHERS)
def test_every_text_is_translated_and_no_other(code: str) -> None:
    assert in_the_code() == translated(code).keys()
    assert all(all(_forms(message)) for message in translated(code).values())


@pytest.mark.parametrize("code", OTHERS)
def test_translations_have_the_same_places_for_figures(code: str) -> None:
    for message in translated(code).values():
        for form in _forms(message):
            assert _fields(form) == _fields(message.id if isinstance(message.id, str) else message.id[1]), form


@pytest.mark.parametrize("code", OTHERS)
def test_translations_keep_what_marks_emphasis_and_what_is_typed(code: str) -> None:
    for message in translated(code).values():
        text = message.id if isinstance(message.id, str) else message.id[1]
        for form in _forms(message):
            assert all(form.count(mark) == text.count(mark) for mark in ("**", "`", "●", "◆", "~")), form


def _forms(message: Message) -> tuple[str, ...]:
    return (message.string,) if isinstance(message.string, str) else tuple(message.string or ())


def _fields(text: str) -> list[str]:
    return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name is not None)


def test_codes_are_known_by_their_first_part() -> None:
    assert [known(code) for code in ("bn", "bn-BD", "bn_IN", "BN", "de", "")] == ["bn", "bn", "bn", "bn", "", ""]


def test_without_a_reader_texts_are_english() -> None:
    assert current() == SOURCE
    assert [several("{n} day", "{n} days", count) for count in (1, 2)] == ["{n} day", "{n} days"]
    assert isinstance(catalogue("bn"), Catalog)


@pytest.fixture
def page(small: Served, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    """The first page, in a language that is asked for."""

    def run(variable: str = "", **query: str) -> AppTest:
        st.cache_resource.clear()
        monkeypatch.setenv("SAHAJ_URL", small.url)
        monkeypatch.setenv(VARIABLE, variable)
        app = AppTest.from_file(str(APP), default_timeout=PATIENCE)
        for name, value in query.items():
            app.query_params[name] = value
        return app.run()

    return run


def test_a_page_is_in_the_language_that_is_asked_for_else_in_the_runs(page: Callable[..., AppTest]) -> None:
    assert {app.metric[0].label for app in (page(), page("bn"), page("en", lang="bn-BD"))} == {"গ্লোবাল ধাপ"}
    assert {app.metric[0].label for app in (page("en"), page(lang="en"), page("bn", lang="en"))} == {"Global step"}


def test_a_reader_chooses_another_language(page: Callable[..., AppTest]) -> None:
    app = page("en")
    app.segmented_control(key="lang").set_value("bn").run()
    assert not app.exception
    assert app.metric[0].label == "গ্লোবাল ধাপ"
