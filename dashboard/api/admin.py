"""The organizer's part of the API, with the admin key: answers are never cached or shared between sessions."""

from dataclasses import dataclass, field
from typing import Any

import httpx
from pydantic import TypeAdapter, ValidationError

from dashboard.api.answers import Decisions, Flag
from dashboard.api.client import is_loopback

PATIENCE = 10.0  # seconds


class OrderRefused(Exception):
    """The request was not carried out; the message says why, in one line for people."""


class NotKnown(OrderRefused):
    """The coordinator has nothing of the kind."""


class WrongKey(OrderRefused):
    """The key is not this run's."""


@dataclass(frozen=True)
class Orders:
    """The organizer's part of the API at a URL. Each method may raise `OrderRefused`."""

    url: str
    key: str = field(repr=False)

    def decisions(self) -> Decisions:
        """What is decided now."""
        return self._read(Decisions, self._ask("GET", "decisions"))

    def flags(self) -> list[Flag] | None:
        """What looked odd; None of a coordinator that does not watch for it."""
        try:
            return self._read(list[Flag], self._ask("GET", "flags"))
        except NotKnown:
            return None

    def give(self, order: str, **body: Any) -> Decisions:
        """`ban` and `unban` (name), `announce` (text), `pause`, `resume`, `stop`."""
        return self._read(Decisions, self._ask("POST", order, body))

    def _ask(self, method: str, order: str, body: dict[str, Any] | None = None) -> bytes:
        if not (self.key.isascii() and self.key.isprintable()):
            raise WrongKey("this is not the admin key of this run")  # no header may carry it
        headers = {"Authorization": f"Bearer {self.key}"}
        try:
            answer = httpx.request(
                method,
                f"{self.url}/api/admin/{order}",
                headers=headers,
                json=body,
                timeout=PATIENCE,
                trust_env=not is_loopback(self.url),
            )
        except (httpx.HTTPError, httpx.InvalidURL):
            raise OrderRefused("the coordinator cannot be reached; nothing was changed, as far as is known") from None
        if answer.status_code in (401, 403):
            raise WrongKey("this is not the admin key of this run")
        if answer.status_code == 404:
            raise NotKnown("this coordinator cannot do that; it is older than these pages")
        if answer.status_code != 200:
            raise OrderRefused(_reason(answer))
        return answer.content

    @staticmethod
    def _read(kind: Any, content: bytes) -> Any:
        try:
            return TypeAdapter(kind).validate_json(content)
        except ValidationError:
            raise OrderRefused("the coordinator's answer is not understood") from None


def _reason(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return f"the coordinator refused (status {answer.status_code})"
