"""Reads one data source: shuffle buffer, backoff after failures, and counts of what was unusable."""

import random
from collections.abc import Iterator

from corpus.remote_reader import NotYet, RemoteReader
from corpus.source import Failed, Item, Source, Unusable
from swarm.errors import DataError

# Documents in the shuffle buffer when the first one is drawn; with each drawn the buffer grows by one.
# Hub datasets come in row groups of 100 to 1,000 documents, so that so many need no further request.
FIRST_FILL = 256
# In the shuffle buffer, beyond which it does not grow: ten thousand books would fill any memory
MOST_CHARACTERS = 64_000_000
FIRST_BACKOFF, LONGEST_BACKOFF, MOST_DOUBLINGS = 1.0, 60.0, 6
# Unusable items before the first document after which a remote source is given up; it may be endless
MOST_UNUSABLE = 10_000
# Passes without a document that ended with failures, as at a damaged file, after which a source is given up: each pass
# begins with another file
MOST_DAMAGED = 20
# Pause before a remote source with nothing ready is asked again
POLL_SECONDS = 0.05


class ShuffledSource:
    """Draws documents from a source, pass after pass; all times are seconds of the caller's clock."""

    def __init__(self, source: Source, *, weight: float, seed: str, repeat: bool, buffer: int | None) -> None:
        """
        Args:
            source: where the documents come from.
            weight: how often it is drawn from, relative to the others; kept for the caller.
            seed: decides the order of the documents.
            repeat: start again at the end, in a new order.
            buffer: documents in the shuffle buffer, fewer if they are long; None keeps their order.
        """
        self.name = source.name
        self.weight = weight
        self.retry_at = 0.0
        self.skipped = 0
        self.failures_in_a_row = 0
        self.reason = ""
        self.is_finished = False
        self._source, self._seed, self._repeat = source, seed, repeat
        self._is_shuffled = buffer is not None
        self._capacity = max(1, buffer or 1)
        self._rng = random.Random(seed)
        self._buffer: list[str] = []
        self._characters = 0  # in it
        self._first_skip = ""
        self._found = 0
        self._passes = 0
        self._is_read = False
        self._items = self._one_pass()

    def is_ready(self, moment: float) -> bool:
        """Whether there is something to draw, or it is time to try again."""
        return bool(self._buffer) or moment >= self.retry_at

    def draw(self, moment: float) -> str | None:
        """The next document; None if none is ready now or, once `is_finished`, ever again.

        While the source fails, documents are drawn from the buffer.

        Raises:
            DataError: the source is wrong, and trying again cannot help.
        """
        if not self._is_read and moment >= self.retry_at:
            self._fill(moment)
        if self._buffer:
            place = self._rng.randrange(len(self._buffer))
            # taking out the last costs nothing, taking out another moves all behind it
            self._buffer[place], self._buffer[-1] = self._buffer[-1], self._buffer[place]
            document = self._buffer.pop()
            self._characters -= len(document)
            return document
        if self._is_read:
            self._end_pass()
        return None

    def close(self) -> None:
        """Stop reading ahead."""
        if isinstance(self._items, RemoteReader):
            self._items.close()

    def _fill(self, moment: float) -> None:
        wanted = min(self._capacity, len(self._buffer) + 2 if self._buffer else FIRST_FILL)
        while len(self._buffer) < wanted and self._characters < MOST_CHARACTERS:
            item = next(self._items, None)
            if item is None:
                self._is_read = True
                return
            if isinstance(item, str):
                self.failures_in_a_row = 0
                self._found += 1
                self._buffer.append(item)
                self._characters += len(item)
            elif isinstance(item, Unusable):
                self._skip(item)
            elif isinstance(item, Failed):
                self._back_off(item, moment)
                return
            else:
                self.retry_at = moment + POLL_SECONDS
                return

    def _skip(self, item: Unusable) -> None:
        self.skipped += 1
        self._first_skip = self._first_skip or item.reason
        if self._source.is_remote and not self._found and self.skipped >= MOST_UNUSABLE:
            self._give_up()

    def _back_off(self, item: Failed, moment: float) -> None:
        doublings = min(self.failures_in_a_row, MOST_DOUBLINGS)
        self.retry_at = moment + min(LONGEST_BACKOFF, FIRST_BACKOFF * 2**doublings)
        self.failures_in_a_row += 1
        self.reason = item.reason

    def _one_pass(self) -> Iterator[Item | NotYet]:
        order = random.Random(f"{self._seed}/{self._passes}") if self._is_shuffled else None
        items = self._source.one_pass(order)
        return RemoteReader(items) if self._source.is_remote else items

    def _end_pass(self) -> None:
        self.close()
        if not self._found:
            if not (self._repeat and self.failures_in_a_row and self._passes < MOST_DAMAGED):
                self._give_up()
            self.failures_in_a_row = 0  # those of the next pass are of another file
        if self._repeat:
            self._passes += 1
            self._is_read = False
            self._items = self._one_pass()
        else:
            self.is_finished = True

    def _give_up(self) -> None:
        raise DataError(f"{self.name}: not one usable document ({self._first_skip or 'it is empty'})")
