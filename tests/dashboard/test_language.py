"""What the pages say in other languages than English."""

from collections.abc import Callable

import pytest
import streamlit as st
from babel.messages.catalog import Catalog
from streamlit.testing.v1 import AppTest

from dashboard.language import SOURCE, VARIABLE, catalogue, current, known, several
from tests.dashboard.test_pages import APP
from tests.recorded_month.serving import Served
from tests.support.waiting import PATIENCE


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
