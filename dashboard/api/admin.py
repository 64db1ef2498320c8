"""The organizer's part of the API, with the admin key."""

from dataclasses import dataclass
from typing import Any, ClassVar

from dashboard.api.answers import Decisions, Flag
from dashboard.api.keyed import Keyed, NotKnown
from dashboard.language import mark


@dataclass(frozen=True)
class Orders(Keyed):
    """The organizer's part of the API."""

    PREFIX: ClassVar[str] = "admin"
    WRONG_KEY: ClassVar[str] = mark("this is not the admin key of this run")

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
