"""The organizer's part of the API, with the admin key."""

from dataclasses import dataclass
from typing import Any, ClassVar

from dashboard.api.answers import Decisions, Flag
from dashboard.api.keyed import Keyed
from dashboard.language import mark


@dataclass(frozen=True)
class Orders(Keyed):
    """The organizer's part of the API."""

    PREFIX: ClassVar[str] = "admin"
    WRONG_KEY: ClassVar[str] = mark("this is not the admin key of this run")

    def decisions(self) -> Decisions:
        """What is decided now."""
        return self._ask(Decisions, "GET", "decisions")

    def flags(self) -> list[Flag]:
        """What looked odd."""
        return self._ask(list[Flag], "GET", "flags")

    def give(self, order: str, **body: Any) -> Decisions:
        """`ban` and `unban` (name), `announce` (text), `pause`, `resume`, `stop`."""
        return self._ask(Decisions, "POST", order, body)
