"""The stream of documents: several sources interleaved by weight, shuffled, outliving their failures."""

import random
import time
from collections.abc import Callable, Iterator, Sequence

from corpus.source_reader import Feed
from corpus.sources import Source, open_source
from swarm.errors import DataError
from swarm.run_file import DataSource, RunFile

# Failures in a row after which a source is given up, if no other source has documents
ATTEMPTS = 5
# A wait comes in naps of at most this many seconds, so that whoever runs the stream can end in between
NAP_SECONDS = 1.0


def open_documents(
    run: RunFile,
    sources: Sequence[DataSource],
    *,
    seed: int,
    repeat: bool,
    shuffle: bool = True,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> "DocumentStream":
    """A stream of the documents of `sources`.

    Args:
        run: gives the folder where relative paths start, and the size of the shuffle buffer.
        sources: drawn from with probabilities proportional to their weights.
        seed: another seed gives another order and another interleaving.
        repeat: go on for ever, each source in a new order when it starts again; else end after one pass.
        shuffle: if off, each source keeps its order.
        now: the clock, in seconds, by which sources that failed are tried again.
        sleep: how to wait when no source has documents.

    Raises:
        DataError: there is no source, or a local one is missing, unreadable, empty or binary.
    """
    if not sources:
        raise DataError("no data source given; add one under data in the run file")
    opened = [(open_source(run, source), source.weight) for source in sources]
    buffer = run.data.shuffle_buffer if shuffle else None
    return DocumentStream(opened, seed=seed, repeat=repeat, buffer=buffer, now=now, sleep=sleep)


class DocumentStream:
    """Iterates the documents of several sources, interleaved by weight, shuffled by seed.

    A document is a stripped, non-empty str. Each `iter` starts from the beginning, with the counts at zero.
    A source that fails is tried again after 1 s, 2 s, 4 s and so on up to 60 s, while the others go on.
    Iterating raises DataError when a source turns out to be wrong (no such dataset, no text column, not one
    usable document), or when every source that is left has failed `ATTEMPTS` times in a row.
    """

    def __init__(
        self,
        sources: Sequence[tuple[Source, float]],
        *,
        seed: int,
        repeat: bool,
        buffer: int | None,
        now: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._sources, self._seed, self._repeat, self._buffer = sources, seed, repeat, buffer
        self._now, self._sleep = now, sleep
        self._feeds: list[Feed] = []

    @property
    def skipped(self) -> int:
        """Documents that could not be used: empty, not text, broken lines, undecodable."""
        return sum(feed.skipped for feed in self._feeds)

    @property
    def failures(self) -> dict[str, int]:
        """How often each source failed and was tried again."""
        counts = {source.name: 0 for source, _ in self._sources}
        for feed in self._feeds:
            counts[feed.name] += feed.failures
        return counts

    def __iter__(self) -> Iterator[str]:
        rng = random.Random(f"{self._seed}/interleave")
        self._feeds = self._open_feeds()
        feeds = list(self._feeds)
        try:
            while feeds:
                moment = self._now()
                ready = [feed for feed in feeds if feed.is_ready(moment)]
                if not ready:
                    _give_up_if_hopeless(feeds)
                    self._sleep(min(NAP_SECONDS, min(feed.retry_at for feed in feeds) - moment))
                    continue
                feed = rng.choices(ready, [feed.weight for feed in ready])[0]
                document = feed.draw(moment)
                if document is not None:
                    yield document
                elif feed.is_finished:
                    feeds.remove(feed)
        finally:
            for feed in feeds:
                feed.close()

    def _open_feeds(self) -> list[Feed]:
        total = sum(weight for _, weight in self._sources)
        return [
            Feed(
                source,
                weight=weight,
                seed=f"{self._seed}/{number}",
                repeat=self._repeat,
                buffer=None if self._buffer is None else max(2, round(self._buffer * weight / total)),
            )
            for number, (source, weight) in enumerate(self._sources)
        ]


def _give_up_if_hopeless(feeds: Sequence[Feed]) -> None:
    if all(feed.failures_in_a_row >= ATTEMPTS for feed in feeds):
        reasons = "; ".join(f"{feed.name}: {feed.reason}" for feed in feeds)
        raise DataError(f"no usable data source, each failed {ATTEMPTS} times in a row: {reasons}")
