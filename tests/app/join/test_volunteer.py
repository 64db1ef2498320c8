"""Who the volunteer is, and what is said before a token is shown."""

import pytest

from app.join.coordinator_client import Access
from app.join.problems import ProblemKind, one_line
from app.join.volunteer import warning_about_token, who
from tests.app.join.stand_in import StandIn
from tests.support.problems import raises_problem

OPEN, CLOSED = Access(open=True), Access(open=False)


def test_an_open_run_wants_a_name_alone(monkeypatch: pytest.MonkeyPatch):
    assert who(OPEN, "bob") == (None, "bob")
    monkeypatch.setattr("getpass.getuser", lambda: "carol")
    assert who(OPEN, None) == (None, "carol")


def test_an_open_run_goes_without_the_hub(hub: StandIn, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    hub.close()
    assert who(OPEN, None)[0] is None


def test_a_closed_run_wants_a_token(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.join.hub_token._has_terminal", lambda: False)
    with raises_problem(ProblemKind.TOKEN_MISSING):
        who(CLOSED, "bob")


@pytest.mark.parametrize(
    ("access", "name", "url", "warned"),
    [
        (CLOSED, None, "http://192.0.2.1:8080", True),
        (CLOSED, None, "https://run.example.org", False),
        (CLOSED, None, "http://127.0.0.1:8080", False),
        (OPEN, "bob", "http://192.0.2.1:8080", False),
        (OPEN, None, "http://192.0.2.1:8080", True),
    ],
)
def test_a_token_that_could_be_read_on_its_way_is_warned_of(access: Access, name: str | None, url: str, warned: bool):
    said = warning_about_token(access, name, url)
    assert (said is not None) == warned
    assert said is None or (url in said and "https" in said)


@pytest.mark.parametrize("name", ["", " ", "x" * 41, "a\nb"])
def test_odd_names_are_refused(name: str):
    with raises_problem(ProblemKind.BAD_NAME):
        who(OPEN, name)


def test_names_in_other_scripts_are_names():
    for name in ("ক্\u200cষ", "র\u200d্যানা", "Ana María", "👩\u200d🚀"):  # with joiners, which are not printable
        assert who(OPEN, name) == (None, name)
        assert one_line(f"The leaderboard calls you\n~{name}.") == f"The leaderboard calls you ~{name}."
