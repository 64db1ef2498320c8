"""Parts of the API that want a key: answers are never cached or shared between sessions."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from dashboard.api.client import is_loopback
from dashboard.api.problem import Problem
from dashboard.language import mark

T = TypeVar("T")

PATIENCE = 10.0  # seconds


class OrderRefused(Problem):
    """The request was not carried out."""


class WrongKey(OrderRefused):
    """The key is not good here."""


@dataclass(frozen=True)
class Keyed:
    """Such a part at the coordinator's URL. Each method may raise `OrderRefused`."""

    PREFIX: ClassVar[str]
    WRONG_KEY: ClassVar[str]  # what is said of a key that no request can carry

    url: str
    key: str = field(repr=False)

    def _ask(self, kind: type[T], method: str, what: str, body: dict[str, Any] | None = None) -> T:
        if not (self.key.isascii() and self.key.isprintable()):
            raise WrongKey(self.WRONG_KEY)  # no header may carry it
        headers = {"Authorization": f"Bearer {self.key}"}
        try:
            answer = httpx.request(
                method,
                f"{self.url}/api/{self.PREFIX}/{what}",
                headers=headers,
                json=body,
                timeout=PATIENCE,
                trust_env=not is_loopback(self.url),
            )
        except (httpx.HTTPError, httpx.InvalidURL):
            away = mark("the coordinator cannot be reached; nothing was changed, as far as is known")
            raise OrderRefused(away) from None
        if answer.status_code != 200:
            raise _refusal(answer)
        try:
            return TypeAdapter(kind).validate_json(answer.content)
        except ValidationError:
            raise OrderRefused(mark("the coordinator's answer is not understood")) from None


def _refusal(answer: httpx.Response) -> OrderRefused:
    kind = WrongKey if answer.status_code in (401, 403) else OrderRefused
    try:
        return kind(str(answer.json()["message"]))
    except (ValueError, KeyError, TypeError):
        return kind(mark("the coordinator refused (status {status})"), status=answer.status_code)
