"""What a source of documents is: one pass after the other over texts, and what stands where there is none."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Unusable:
    """Stands where a document should be, with the reason why there is none."""

    reason: str


@dataclass(frozen=True)
class Failed:
    """The source cannot be read now; the next step of the pass retries at the same place."""

    reason: str


Item = str | Unusable | Failed


class Source(Protocol):
    """A data source; each pass reads all of its documents."""

    name: str
    is_remote: bool

    def one_pass(self, order: random.Random | None) -> Iterator[Item]:
        """All documents once, in the order of `order` or, without it, as they are stored.

        Raises:
            DataError: the source is wrong, and trying again cannot help.
        """
        ...


def usable(value: object) -> str | Unusable:
    """The stripped text, if `value` is a text that can be encoded."""
    if not isinstance(value, str):
        return Unusable(f"not text but {type(value).__name__}")
    text = value.strip()
    if not text:
        return Unusable("empty")
    try:
        text.encode()
    except UnicodeEncodeError:
        return Unusable("holds half of a surrogate pair, which is no character")
    return text
