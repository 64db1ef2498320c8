"""The part of a run's chain of headers that a peer holds."""

from collections.abc import Iterable

from averaging.log.header import Entry, Head, Header


class Chain:
    """Committed headers without a gap, the newest last. Older ones may have been dropped."""

    tip: Header  # the newest one

    def __init__(self, entries: Iterable[Entry]):
        self._entries: list[Entry] = []
        for entry in entries:
            self.append(entry)

    @property
    def head(self) -> Head:
        """Where a peer with this chain stands."""
        return self.tip.head

    def append(self, entry: Entry) -> None:
        """Add the next header, which the caller has found to be committed."""
        if self._entries:
            tip = self.tip
            assert (entry.header.step, entry.header.previous) == (tip.step + 1, tip.digest), "a gap in the chain"
        self._entries.append(entry)
        self.tip = entry.header

    def last(self, count: int) -> list[Header]:
        """The newest headers, at most `count`, oldest first."""
        return [entry.header for entry in self._entries[-count:]]

    def at(self, step: int) -> Entry | None:
        """The entry of a step, if it is held."""
        index = step - self._entries[0].header.step
        return self._entries[index] if 0 <= index < len(self._entries) else None

    def after(self, head: Head, most: int) -> list[Entry] | None:
        """The entries that follow `head`, at most so many; None if this chain does not lead on from it."""
        known = self.at(head.step)
        if known is None or known.header.digest != head.digest:
            return None
        index = head.step - self._entries[0].header.step
        return self._entries[index + 1 : index + 1 + most]

    def since(self, step: int) -> list[Entry]:
        """The entries from this step on, as far as they are held."""
        return [entry for entry in self._entries if entry.header.step >= step]

    def between(self, after: int, until: int) -> list[Entry]:
        """The entries of the steps after one and up to another, as far as they are held."""
        first = self._entries[0].header.step
        return self._entries[max(0, after + 1 - first) : max(0, until + 1 - first)]

    def until(self, step: int, digest: str, most: int) -> list[Entry]:
        """The entries up to that of a step with this digest, at most so many; none if this chain does not have it."""
        found = self.at(step)
        if found is None or found.header.digest != digest:
            return []
        return self.between(step - most, step)

    @property
    def oldest(self) -> Header:
        """The oldest header that is held."""
        return self._entries[0].header

    def forget_before(self, step: int) -> None:
        """Drop older headers, never the newest one."""
        count = min(max(0, step - self._entries[0].header.step), len(self._entries) - 1)
        self._entries = self._entries[count:]

    def __len__(self) -> int:
        return len(self._entries)
