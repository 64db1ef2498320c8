"""The checkpoint whose guesses are shown."""

from streamlit.testing.v1 import AppTest

from tests.support.waiting import PATIENCE


def test_the_newest_is_shown_until_the_reader_moves() -> None:
    def script() -> None:
        import streamlit as st

        from dashboard.api.answers import Fill
        from dashboard.views import learning

        steps = st.session_state["steps"]
        st.text(steps[learning._chosen([Fill(step=step) for step in steps])])

    app = AppTest.from_function(script, default_timeout=PATIENCE)

    def shown(*steps: int) -> str:
        app.session_state["steps"] = steps
        assert not app.run().exception
        return str(app.text[0].value)

    assert shown(12_340, 12_341) == "12341"
    assert app.select_slider[0].options == ["12,340", "12,341"], "each has its own"
    assert shown(12_340, 12_341, 20_000) == "20000"
    app.select_slider[0].set_value(12_341)
    assert shown(12_340, 12_341, 20_000) == "12341"
    assert shown(12_340, 12_341, 20_000, 30_000) == "12341"
    app.select_slider[0].set_value(30_000)
    assert shown(12_340, 12_341, 20_000, 30_000) == "30000"
    assert shown(12_341, 20_000, 30_000, 40_000) == "40000"
