"""The part of a run's chain of headers that a peer holds."""

import functools
from collections.abc import Iterable

from averaging.log.header import Entry, Head, Header
from averaging.log.packing import pack, unpack

UNPACKED = 128  # entries at hand, those used last; one with 40 members takes 60 KB, and packed a tenth of that
MOST_PACKED = 32 << 20  # bytes, beyond which none are held for others alone


@functools.lru_cache(UNPACKED)
def _unpacked(entry: bytes) -> Entry:
    found: Entry = unpack(Entry, entry)
    return found


class Chain:
    """Committed headers without a gap, the newest last. Older ones may have been dropped."""

    tip: Header  # the newest one

    def __init__(self, entries: Iterable[Entry]):
        self._packed: list[bytes] = []
        self._bytes = 0
        for entry in entries:
            self.append(entry)

    @property
    def head(self) -> Head:
        """Where a peer with this chain stands."""
        return self.tip.head

    def append(self, entry: Entry) -> None:
        """Add the next header, which the caller has found to be committed."""
        if self._packed:
            tip = self.tip
            assert (entry.header.step, entry.header.previous) == (tip.step + 1, tip.digest), "a gap in the chain"
        self._packed.append(pack(entry))
        self._bytes += len(self._packed[-1])
        self.tip = entry.header

    def last(self, count: int) -> list[Header]:
        """The newest headers, at most `count`, oldest first."""
        return [entry.header for entry in self.between(self.tip.step - count, self.tip.step)]

    def at(self, step: int) -> Entry | None:
        """The entry of a step, if it is held."""
        return next(iter(self.between(step - 1, step)), None)

    def after(self, head: Head, most: int) -> list[Entry] | None:
        """The entries that follow `head`, at most so many; None if this chain does not lead on from it."""
        known = self.at(head.step)
        if known is None or known.header.digest != head.digest:
            return None
        return self.between(head.step, head.step + most)

    def since(self, step: int) -> list[Entry]:
        """The entries from this step on, as far as they are held."""
        return self.between(step - 1, self.tip.step)

    def between(self, after: int, until: int) -> list[Entry]:
        """The entries of the steps after one and up to another, as far as they are held."""
        begin, end = (max(0, step + 1 - self.first) for step in (after, until))
        return [_unpacked(one) for one in self._packed[begin:end]]

    def until(self, step: int, digest: str, most: int) -> list[Entry]:
        """The entries up to that of a step with this digest, at most so many; none if this chain does not have it."""
        found = self.at(step)
        return [] if found is None or found.header.digest != digest else self.between(step - most, step)

    @property
    def first(self) -> int:
        """The step of the oldest header that is held."""
        return self.tip.step + 1 - len(self)

    @property
    def oldest(self) -> Header:
        """The oldest header that is held."""
        return _unpacked(self._packed[0]).header

    def forget_before(self, needed: int, kept: int) -> None:
        """Drop headers before a step, never the newest one; those before it from `kept` on if there is no room."""
        while len(self) > 1 and self.first < needed and (self.first < kept or self._bytes > MOST_PACKED):
            self._bytes -= len(self._packed.pop(0))

    def __len__(self) -> int:
        return len(self._packed)
