"""What is said where a key opens nothing, in the reader's language."""

from typing import Any

import httpx
import pytest

from dashboard import language
from dashboard.api.admin import Orders
from dashboard.api.client import Away
from dashboard.api.keyed import OrderRefused, WrongKey
from dashboard.api.me import NOT_GOOD, Me


@pytest.mark.parametrize(
    ("status", "kind"), [(401, WrongKey), (403, WrongKey), (404, OrderRefused), (503, OrderRefused)]
)
def test_the_coordinators_reason_is_passed_on(
    monkeypatch: pytest.MonkeyPatch, status: int, kind: type[OrderRefused]
) -> None:
    answer = httpx.Response(status, json={"message": "you {are} banned"})
    monkeypatch.setattr(httpx, "request", lambda *_, **__: answer)
    with pytest.raises(kind) as caught:
        Me("http://127.0.0.1:9", "key").machines()
    assert caught.value.told() == "you {are} banned"
    answer = httpx.Response(status, content=b"<html>")
    with pytest.raises(kind, match=f"status {status}"):
        Me("http://127.0.0.1:9", "key").machines()


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (Away("the coordinator cannot answer now (status {status})", status=503), "503"),
        (OrderRefused("the coordinator's answer is not understood"), "উত্তর"),
        (WrongKey(Orders.WRONG_KEY), "চাবি"),
        (WrongKey(NOT_GOOD[-1]), "বাতিল"),
    ],
)
def test_problems_are_told_in_the_readers_language(monkeypatch: pytest.MonkeyPatch, problem: Any, said: str) -> None:
    assert problem.told() == str(problem)
    monkeypatch.setattr(language, "current", lambda: "bn")
    assert said in problem.told() and problem.told() != str(problem)
