"""Fetching chunks and snapshots by digest from whichever peer has them."""

import itertools
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from averaging.protocol.messages import Chunk, Message, Want
from averaging.protocol.settings import Timing


@dataclass
class _Wanted:
    sources: list[str]
    asked: int = 0  # times
    asked_at: float = field(default=float("-inf"))


class Fetching:
    """What this peer holds and what it still wants. Digests make all sources alike."""

    def __init__(self, send: Callable[[str, Message], None], timing: Timing, held: Iterable[str] = ()):
        self.held: set[str] = set(held)
        self._send, self._timing = send, timing
        self._wanted: dict[str, _Wanted] = {}

    def holds(self, digests: Iterable[str]) -> bool:
        """Whether all of them are here."""
        return all(digest in self.held for digest in digests)

    def want(self, digests: Iterable[str], sources: Iterable[str], now: float) -> None:
        """Ask for what is missing, the first source first."""
        known = list(dict.fromkeys(sources))
        for digest in digests:
            if digest not in self.held:
                wanted = self._wanted.setdefault(digest, _Wanted([]))
                wanted.sources.extend(source for source in known if source not in wanted.sources)
        self.tick(now)

    def arrived(self, digest: str) -> None:
        """A chunk is here: it was asked for, sent by its reducer, or averaged by this peer itself."""
        self.held.add(digest)
        self._wanted.pop(digest, None)

    def on_chunk(self, sender: str, chunk: Chunk, now: float) -> None:
        """A peer has sent a chunk."""
        self.arrived(chunk.digest)

    def on_want(self, sender: str, want: Want, now: float) -> None:
        """A peer asks for chunks."""
        for digest in want.digests:
            if digest in self.held:
                self._send(sender, Chunk(digest))

    @property
    def wanted(self) -> Collection[str]:
        """Digests that are still asked for."""
        return self._wanted.keys()

    def want_only(self, digests: Collection[str]) -> None:
        """Stop asking for anything else."""
        self._wanted = {digest: wanted for digest, wanted in self._wanted.items() if digest in digests}

    def forget(self, digests: Iterable[str]) -> None:
        """Hold these no longer."""
        self.held.difference_update(digests)

    def tick(self, now: float) -> None:
        """Ask the next source for what has not come."""
        due: dict[str, list[str]] = {}
        for digest, wanted in self._wanted.items():
            if wanted.sources and now >= wanted.asked_at + self._timing.fetch:
                source = wanted.sources[wanted.asked % len(wanted.sources)]
                wanted.asked, wanted.asked_at = wanted.asked + 1, now
                due.setdefault(source, []).append(digest)
        for source, digests in due.items():
            self._send(source, Want(tuple(digests)))


def first_of(*groups: Iterable[str], but: str) -> list[str]:
    """Sessions in this order, each once, without this peer itself."""
    return [session for session in dict.fromkeys(itertools.chain(*groups)) if session != but]
