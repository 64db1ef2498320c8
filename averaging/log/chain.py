"""The part of a run's chain of headers that a peer holds."""

from collections.abc import Iterable

from averaging.log.header import Entry, Head, Header
from averaging.log.packing import pack, unpack

PLAIN = 64  # entries at hand, the newest ones; one with 40 members takes 60 KB, and packed a tenth of that
MOST_PACKED = 32 << 20  # bytes of older ones that are held for others


class Chain:
    """Committed headers without a gap, the newest last. Older ones may have been dropped."""

    tip: Header  # the newest one

    def __init__(self, entries: Iterable[Entry]):
        self._packed: list[bytes] = []  # those before the plain ones
        self._packed_bytes = 0
        self._plain: list[Entry] = []
        for entry in entries:
            self.append(entry)

    @property
    def head(self) -> Head:
        """Where a peer with this chain stands."""
        return self.tip.head

    def append(self, entry: Entry) -> None:
        """Add the next header, which the caller has found to be committed."""
        if self._plain:
            tip = self.tip
            assert (entry.header.step, entry.header.previous) == (tip.step + 1, tip.digest), "a gap in the chain"
        self._plain.append(entry)
        self.tip = entry.header
        if len(self._plain) > PLAIN:
            self._packed.append(pack(self._plain.pop(0)))
            self._packed_bytes += len(self._packed[-1])

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
        first, old = self.first, len(self._packed)
        begin, end = max(0, after + 1 - first), max(0, until + 1 - first)
        return [
            *(unpack(Entry, one) for one in self._packed[begin:end]),
            *self._plain[max(0, begin - old) : max(0, end - old)],
        ]

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
        return self.between(self.first - 1, self.first)[0].header

    def forget_before(self, needed: int, kept: int) -> None:
        """Drop headers before a step, never the newest one; those before it from `kept` on if there is no room."""
        while self._packed and self.first < needed and (self.first < kept or self._packed_bytes > MOST_PACKED):
            self._packed_bytes -= len(self._packed.pop(0))
        if not self._packed:
            count = min(max(0, min(needed, kept) - self.first), len(self._plain) - 1)
            self._plain = self._plain[count:]

    def __len__(self) -> int:
        return len(self._packed) + len(self._plain)
