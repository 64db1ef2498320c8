"""Some chunks of the part that a coordinator reduces, to compare their pieces once the step is committed.

The pieces are those that went into the mean, because a liar could send others later. A chunk is drawn only after its
pieces have come, so a sender cannot know whether they will be compared.
"""

import secrets
from collections.abc import Callable
from typing import TypeAlias

from averaging.log.header import Ballot, Header
from averaging.reduce.agreement import Agreement

COMPARED = 4  # chunks of a step

Compare: TypeAlias = Callable[[], tuple[Agreement, ...]]


class OwnPart:
    """Of the open ballot."""

    def __init__(self) -> None:
        self._ballot: Ballot | None = None
        self._averaged = 0  # chunks of it, so far
        self._drawn: list[tuple[int, str, Compare]] = []  # chunk, digest of its mean

    def averaged(self, ballot: Ballot, chunk: int, mean: str, compare: Compare) -> None:
        """This peer has made a mean. Every chunk is as likely to be kept (reservoir sampling: Vitter 1985, "R").

        Args:
            mean: its digest.
            compare: tells how far the pieces agree that it was made of.
        """
        if ballot != self._ballot:
            self._ballot, self._averaged, self._drawn = ballot, 0, []
        place = secrets.randbelow(self._averaged + 1)
        self._averaged += 1
        if len(self._drawn) < COMPARED:
            self._drawn.append((chunk, mean, compare))
        elif place < COMPARED:
            self._drawn[place] = (chunk, mean, compare)

    def of(self, header: Header) -> list[Compare]:
        """Return comparisons of the drawn chunks whose means the header names, and forget all drawn chunks."""
        drawn, self._drawn, self._averaged = self._drawn, [], 0
        return [compare for chunk, mean, compare in drawn if header.chunks[chunk] == mean]
