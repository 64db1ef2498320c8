"""Fetching chunks and snapshots by digest from the peers that have them, from several at once.

Digests make all sources alike. A source is asked for a few chunks at a time, and for fewer if they take long, so that a
fast one gives more of them than a slow one, and little is on its way over a thin line. None is late whose bytes are
coming in; one that sends none for a while loses what it was asked for to others, and is given longer the next time.
"""

import itertools
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from averaging.log.header import Header, HeaderKind
from averaging.protocol.messages import Chunk, Lacks, Message, Want
from averaging.protocol.settings import Timeouts

AT_ONCE = 4  # chunks that one source is asked for at most
TOGETHER = 6  # sources that are asked at a time
QUICK = 3.0  # seconds from the question to the chunk, after which the source is asked for one more at a time
LONGEST = 10.0  # seconds without a byte that a source is given at most
SLOWEST = 60.0  # seconds for one chunk, however many bytes come
REMEMBERED = 120.0  # seconds for which the patience with a source is kept


@dataclass
class _Source:
    patience: float  # seconds
    silent_since: float = float("-inf")  # while it owes something
    sent_at: float = float("-inf")  # a chunk, or when it began to owe something
    at_once: int = 1  # chunks that it is asked for
    owes: dict[str, float] = field(default_factory=dict)  # when it was asked, by digest, in the order of asking


@dataclass
class _Wanted:
    sources: dict[str, int] = field(default_factory=dict)  # how often each one was asked
    lacking: dict[str, float] = field(default_factory=dict)  # when a source has said that it does not have it
    owed_by: str = ""


class Fetching:
    """What this peer holds and what it still wants."""

    def __init__(self, send: Callable[[str, Message], None], timeouts: Timeouts, held: Iterable[str] = ()):
        self.held: set[str] = set(held)
        self._send, self._timeouts = send, timeouts
        self._wanted: dict[str, _Wanted] = {}
        self._sources: dict[str, _Source] = {}
        self._snapshots: set[str] = set()  # that were asked for
        self._parts: dict[str, tuple[str, ...]] = {}  # chunks of a snapshot by the digest of its manifest
        self._moved_at = float("-inf")  # when something of what a source owes has come

    def holds(self, digests: Iterable[str]) -> bool:
        """Whether all of them are here, snapshots with all of their chunks."""
        return self.held.issuperset(digests)

    def want(self, digests: Iterable[str], sources: Iterable[str], now: float) -> None:
        """Ask for what is missing, the first source first."""
        known = list(dict.fromkeys(sources))
        for digest in digests:
            if digest not in self.held:
                wanted = self._wanted.setdefault(digest, _Wanted())
                for source in known:
                    wanted.sources.setdefault(source, 0)
                if digest in self._parts:
                    self.want(self._parts[digest], known, now)
        self._ask(now)

    def want_snapshot(self, digest: str, sources: Iterable[str], now: float) -> None:
        """Ask for a manifest, and once it is here (`consists_of`), for the chunks that it names."""
        self._snapshots.add(digest)
        self.want([digest], sources, now)

    def want_header(self, header: Header, sources: Iterable[str], now: float, *, is_new: bool) -> None:
        """Ask for what a peer must hold to vote for a header and to apply it.

        Reducers send the parts of a new update without being asked. They and the other sources are asked only if a
        reducer falls silent.
        """
        known = [*(part.reducer for part in header.parts), *sources]  # reducers have lines that are not thin
        for part in header.parts if is_new else ():
            if self._patience(part.reducer) <= self._timeouts.fetch:
                for digest in part.chunks:
                    if digest not in self.held and not self._wanted.setdefault(digest, _Wanted()).owed_by:
                        self._owe(digest, part.reducer, now)
        self.want(header.chunks, known, now)
        if header.kind is HeaderKind.ROLLBACK and header.snapshot is not None:
            self.want_snapshot(header.snapshot.digest, known, now)

    def is_snapshot(self, digest: str) -> bool:
        """Whether it was asked for as the manifest of a snapshot."""
        return digest in self._snapshots and digest in self._wanted

    def consists_of(self, digest: str, parts: Iterable[str], now: float) -> None:
        """The manifest of a snapshot has come: the snapshot is here once these chunks are."""
        self._parts[digest] = tuple(parts)
        wanted = self._wanted.get(digest)
        if wanted is not None:
            self._no_longer_owed(digest)
            self.want(self._parts[digest], wanted.sources, now)
        self._complete()

    def parts_of(self, digests: Iterable[str]) -> set[str]:
        """The chunks of those of them that are snapshots."""
        return {part for digest in digests for part in self._parts.get(digest, ())}

    def made(self, digest: str, parts: Iterable[str], now: float) -> None:
        """A snapshot is here, since this peer has made it."""
        self._parts[digest] = tuple(parts)
        for one in (*self._parts[digest], digest):
            self.arrived(one, now)

    def arrived(self, digest: str, now: float, source: str = "") -> None:
        """A chunk is here: it was asked for, sent by its reducer, or made by this peer itself."""
        if source in self._sources:
            self._has_sent(self._sources[source], digest, now)
        if digest in self._wanted:
            self._no_longer_owed(digest)
        if self.held.issuperset(self._parts.get(digest, ())):
            self.held.add(digest)
            self._wanted.pop(digest, None)
        self._complete()
        self._ask(now)

    def _has_sent(self, source: _Source, digest: str, now: float) -> None:
        source.silent_since = source.sent_at = self._moved_at = now
        source.patience = self._timeouts.fetch
        if digest in source.owes:
            is_quick = now < source.owes[digest] + QUICK
            source.at_once = min(AT_ONCE, source.at_once + 1) if is_quick else max(1, source.at_once - 1)

    def moving(self, source: str, now: float) -> None:
        """A part of a chunk has come."""
        if self._owing(source) and now < self._sources[source].sent_at + SLOWEST:
            self._sources[source].silent_since = self._moved_at = now

    def is_moving(self, now: float) -> bool:
        """Whether something of what was asked for has come lately."""
        return now < self._moved_at + LONGEST

    def on_chunk(self, sender: str, chunk: Chunk, now: float) -> None:
        """A peer has sent a chunk."""
        self.arrived(chunk.digest, now, sender)

    def on_want(self, sender: str, want: Want, now: float) -> None:
        """A peer asks for chunks."""
        for digest in want.digests:
            if digest in self.held:
                self._send(sender, Chunk(digest))
        missing = tuple(digest for digest in want.digests if digest not in self.held)
        if missing:
            self._send(sender, Lacks(missing))

    def on_lacks(self, sender: str, lacks: Lacks, now: float) -> None:
        """A peer does not have what it was asked for; it may have it later."""
        for digest in lacks.digests:
            if digest in self._wanted and self._wanted[digest].owed_by == sender:
                self._wanted[digest].lacking[sender] = now
                self._no_longer_owed(digest)
        self._ask(now)

    @property
    def wanted(self) -> Collection[str]:
        """Digests that have not come yet."""
        return self._wanted.keys()

    def want_only(self, digests: Collection[str]) -> None:
        """Stop asking for anything else."""
        kept = self.parts_of(digests).union(digests)
        self._want_no_longer([one for one in self._wanted if one not in kept])

    def want_instead(self, before: Collection[str], now: Collection[str]) -> None:
        """Stop asking for what was wanted before and is not now: nobody may have it any more."""
        kept = self.parts_of(now).union(now)
        self._want_no_longer((self.parts_of(before).union(before) - kept).intersection(self._wanted))

    def _want_no_longer(self, digests: Iterable[str]) -> None:
        for digest in digests:
            self._no_longer_owed(digest)
            self._snapshots.discard(digest)
            self._parts.pop(digest, None)
            del self._wanted[digest]

    def forget(self, digests: Iterable[str]) -> None:
        """Hold these no longer."""
        for digest in digests:
            self.held.discard(digest)
            self._snapshots.discard(digest)
            self._parts.pop(digest, None)

    def tick(self, now: float) -> None:
        """Ask others for what has not come."""
        for name, source in list(self._sources.items()):
            if source.owes and now >= source.silent_since + source.patience:
                source.patience = min(LONGEST, 2 * source.patience)
                for digest in list(source.owes):
                    self._no_longer_owed(digest)
            if not source.owes and now >= source.silent_since + REMEMBERED:
                del self._sources[name]
        self._ask(now)

    def _ask(self, now: float) -> None:
        if not self._wanted:
            return
        asked: dict[str, list[str]] = {}
        for digest, wanted in self._wanted.items():
            if wanted.owed_by or not wanted.sources or digest in self._parts:
                continue  # the last one: its manifest is here, and only its chunks are missing
            free = [one for one in self._best_sources(wanted, now) if self._may_ask(one)]
            if free:
                # the first of equal ones
                source = min(free, key=lambda one: (wanted.sources[one], self._patience(one), self._owing(one)))
                wanted.sources[source] += 1
                self._owe(digest, source, now)
                asked.setdefault(source, []).append(digest)
        for source, digests in asked.items():
            self._send(source, Want(tuple(digests)))

    def _best_sources(self, wanted: _Wanted, now: float) -> list[str]:
        """Those that may have it; one that was silent, as a reducer of long ago may be, only if there is no other."""
        having = [one for one in wanted.sources if now >= wanted.lacking.get(one, -1e9) + self._timeouts.fetch]
        return [one for one in having if self._patience(one) <= self._timeouts.fetch] or having

    def _may_ask(self, source: str) -> bool:
        owing = self._owing(source)
        if not owing:
            return sum(1 for one in self._sources.values() if one.owes) < TOGETHER
        return owing < self._sources[source].at_once

    def _owing(self, source: str) -> int:
        return len(self._sources[source].owes) if source in self._sources else 0

    def _patience(self, source: str) -> float:
        return self._sources[source].patience if source in self._sources else self._timeouts.fetch

    def _owe(self, digest: str, source: str, now: float) -> None:
        known = self._sources.setdefault(source, _Source(self._timeouts.fetch))
        if not known.owes:
            known.silent_since = known.sent_at = now
        known.owes[digest] = now
        self._wanted[digest].owed_by = source

    def _no_longer_owed(self, digest: str) -> None:
        source = self._wanted[digest].owed_by
        self._wanted[digest].owed_by = ""
        if source:
            self._sources[source].owes.pop(digest, None)

    def _complete(self) -> None:
        """Snapshots all of whose chunks have come are here."""
        for digest, parts in self._parts.items():
            if digest in self._wanted and self.held.issuperset(parts):
                self._no_longer_owed(digest)
                del self._wanted[digest]
                self.held.add(digest)


def first_of(*groups: Iterable[str], but: str) -> list[str]:
    """Sessions in this order, each once, without this peer itself."""
    return [session for session in dict.fromkeys(itertools.chain(*groups)) if session != but]
