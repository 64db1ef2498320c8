"""Parts of the API that want a key: answers are never cached or shared between sessions."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import httpx
from pydantic import TypeAdapter, ValidationError

from dashboard.api.client import is_loopback
from dashboard.api.problem import Problem
from dashboard.language import mark

PATIENCE = 10.0  # seconds


class OrderRefused(Problem):
    """The request was not carried out."""


class NotKnown(OrderRefused):
    """The coordinator has nothing of the kind."""


class WrongKey(OrderRefused):
    """The key is not good here."""


@dataclass(frozen=True)
class Keyed:
    """Such a part at the coordinator's URL. Each method may raise `OrderRefused`."""

    PREFIX: ClassVar[str]
    WRONG_KEY: ClassVar[str]  # what is said of a key that no request can carry

    url: str
    key: str = field(repr=False)

    def _ask(self, method: str, what: str, body: dict[str, Any] | None = None) -> bytes:
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
        return answer.content

    @staticmethod
    def _read(kind: Any, content: bytes) -> Any:
        try:
            return TypeAdapter(kind).validate_json(content)
        except ValidationError:
            raise OrderRefused(mark("the coordinator's answer is not understood")) from None


def _refusal(answer: httpx.Response) -> OrderRefused:
    kind = {401: WrongKey, 403: WrongKey, 404: NotKnown}.get(answer.status_code, OrderRefused)
    try:
        return kind(str(answer.json()["message"]))
    except (ValueError, KeyError, TypeError):
        return kind(mark("the coordinator refused (status {status})"), status=answer.status_code)
