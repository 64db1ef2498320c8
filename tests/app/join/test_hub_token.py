"""The token: where it comes from, what it may do, and that it is never shown."""

import getpass
import traceback
from pathlib import Path
from typing import Any

import pytest

from app.join import hub_token as tokens
from app.join.hub_token import HubToken, ask_for_token, check_token, find_token, what_it_may_change
from app.join.problems import ProblemKind
from tests.app.join.stand_in import Answer, StandIn
from tests.support.problems import raises_problem

SECRET = "hf_very_secret"


def account(role: str | None, **fine_grained: Any) -> dict[str, Any]:
    token = {"displayName": "mine", "role": role}
    if fine_grained:
        token["fineGrained"] = fine_grained  # type: ignore[assignment]
    return {"type": "user", "name": "alice", "auth": {"type": "access_token", "accessToken": token}}


def test_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "no-token").write_text("hf_saved")
    saved = find_token()
    monkeypatch.setenv("HUGGING_FACE_HUB_TOKEN", "hf_old_name")
    older = find_token()
    monkeypatch.setenv("HF_TOKEN", f" {SECRET}\n")
    given = find_token()
    assert saved and (saved.value, saved.source) == ("hf_saved", "the saved login")
    assert older and (older.value, older.source) == ("hf_old_name", "HUGGING_FACE_HUB_TOKEN")
    assert given and (given.value, given.source) == (SECRET, "HF_TOKEN")


def test_nobody_is_logged_in():
    assert find_token() is None


def test_without_a_terminal_nobody_is_asked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tokens, "_has_terminal", lambda: False)
    with raises_problem(ProblemKind.TOKEN_MISSING, match=r"`export HF_TOKEN=hf_\.\.\.`, then join again"):
        ask_for_token()


@pytest.mark.parametrize("typed", ["", "  "])
def test_nothing_is_typed(monkeypatch: pytest.MonkeyPatch, typed: str):
    monkeypatch.setattr(tokens, "_has_terminal", lambda: True)
    monkeypatch.setattr(getpass, "getpass", lambda _: typed)
    with raises_problem(ProblemKind.TOKEN_MISSING, match="settings/tokens"):
        ask_for_token()


def test_hidden_input(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tokens, "_has_terminal", lambda: True)
    monkeypatch.setattr(getpass, "getpass", lambda _: SECRET)
    assert ask_for_token().value == SECRET


@pytest.mark.parametrize("bad", [f"{SECRET} {SECRET}", f"{SECRET}\nX-Evil: 1", f"{SECRET}é", SECRET * 1000])
def test_what_cannot_be_a_token_is_not_repeated(monkeypatch: pytest.MonkeyPatch, bad: str):
    monkeypatch.setenv("HF_TOKEN", bad)
    with raises_problem(ProblemKind.TOKEN_REJECTED) as problem:
        find_token()
    assert SECRET not in "".join(traceback.format_exception(problem.value))


@pytest.mark.parametrize(
    ("answer", "harmless"),
    [
        (account("read"), True),
        (account("write"), False),
        (account("fineGrained", canReadGatedRepos=True, **{"global": [], "scoped": []}), True),
        (account("fineGrained", scoped=[{"entity": {}, "permissions": ["repo.content.read"]}]), True),
        (account("fineGrained", scoped=[{"entity": {}, "permissions": ["repo.content.read", "repo.write"]}]), False),
        (account("fineGrained", **{"global": ["discussion.write"]}), False),
        (account("fineGrained", scoped=[{"permissions": ["inference.serverless.write"]}]), False),
        (account("fineGrained"), True),
        (account(None), False),
        ({"name": "alice", "auth": {"type": "oauth"}}, False),
        ({"name": "alice"}, False),
        ({"name": "alice", "auth": ["odd"]}, False),
    ],
)
def test_what_a_token_may_do(answer: dict[str, Any], harmless: bool):
    assert (what_it_may_change(answer) is None) == harmless


def test_a_strong_token_is_refused_unless_insisted(hub: StandIn):
    hub.answers["GET /api/whoami-v2"] = Answer(body=account("write"))
    token = HubToken(SECRET, "HF_TOKEN")
    with raises_problem(ProblemKind.TOKEN_TOO_STRONG) as problem:
        check_token(token, allow_write=False)
    assert "--allow-write-token" in str(problem.value)
    assert "settings/tokens" in str(problem.value)
    assert problem.value.exit_status == 28
    with raises_problem(ProblemKind.TOKEN_TOO_STRONG, match="then type it here") as told:
        check_token(token, allow_write=False, notebook=True)
    assert "export" not in str(told.value) and "--" not in str(told.value), "a notebook has no command line"
    assert check_token(token, allow_write=True) == "alice"
    assert hub.heard[0].bearer == SECRET


def test_the_hub_does_not_know_the_token(hub: StandIn):
    hub.answers["GET /api/whoami-v2"] = Answer(401, {"error": "Invalid credentials"})
    saved, given = HubToken(SECRET, "the saved login"), HubToken(SECRET, "HF_TOKEN")
    with raises_problem(ProblemKind.TOKEN_REJECTED, match=r"saved login.*log in with it: `\S+/hf auth login`"):
        check_token(saved, allow_write=False)
    with raises_problem(ProblemKind.TOKEN_REJECTED, match=r"`export HF_TOKEN=hf_\.\.\.`"):  # it goes before the login
        check_token(given, allow_write=False)
    with raises_problem(ProblemKind.TOKEN_REJECTED, match="type it here, or keep it as the secret HF_TOKEN$"):
        check_token(given, allow_write=False, notebook=True)


@pytest.mark.parametrize("answer", [Answer(500, "oops"), Answer(200, "<html>"), Answer(200, "[]"), Answer(302, "")])
def test_the_hub_is_away(hub: StandIn, answer: Answer):
    hub.answers["GET /api/whoami-v2"] = answer
    with raises_problem(ProblemKind.HUB_AWAY) as problem:
        check_token(HubToken(SECRET, "HF_TOKEN"), allow_write=True)
    assert SECRET not in "".join(traceback.format_exception(problem.value))
    assert problem.value.exit_status == 36


def test_a_token_does_not_show_in_its_text():
    assert SECRET not in f"{HubToken(SECRET, 'HF_TOKEN')!r} {HubToken(SECRET, 'HF_TOKEN')}"
