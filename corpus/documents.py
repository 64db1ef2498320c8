"""The stream of documents: several sources interleaved by weight and shuffled, with retries when one fails."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from corpus.hub_dataset import HubDataset
from corpus.local_files import LocalFiles
from corpus.shuffled_source import ShuffledSource
from corpus.source import Source
from swarm.errors import DataError
from swarm.run_file import DataSource, RunFile

# Failures in a row after which a source is given up, if no other source has documents
ATTEMPTS = 5
# Longest single sleep, so that the thread that runs the stream can end in between
SLEEP_SECONDS = 1.0


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
        repeat: repeat each source forever, in a new order each time; else end after one pass.
        shuffle: if off, each source keeps its order.
        now: the clock, in seconds, by which sources that failed are tried again.
        sleep: how to wait when no source has documents.

    Raises:
        DataError: there is no source, or a local one is missing, unreadable, empty or binary.
    """
    if not sources:
        raise DataError("no data source given; add one under data in the run file")
    opened = [
        (LocalFiles(run.resolve(str(one.path)), one) if one.hub is None else HubDataset(one), one.weight)
        for one in sources
    ]
    buffer = run.data.shuffle_buffer if shuffle else None
    return DocumentStream(opened, seed=seed, repeat=repeat, buffer=buffer, now=now, sleep=sleep)


class DocumentStream:
    """Iterates the documents of several sources, interleaved by weight, shuffled by seed.

    A document is a stripped, non-empty str. Each `iter` starts from the beginning, with the counts at zero.
    A source that fails is tried again after 1 s, 2 s, 4 s and so on up to 60 s, while the others go on.
    Iterating raises DataError when a source turns out to be wrong (no such dataset, no text column, not one
    usable document), or when every source that is left has failed `ATTEMPTS` times in a row. The latter only before
    the first document if sources are repeated, for a program that trains: it waits for what has worked.
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
        self._readers: list[ShuffledSource] = []

    @property
    def skipped(self) -> int:
        """Documents that could not be used: empty, not text, broken lines, undecodable."""
        return sum(reader.skipped for reader in self._readers)

    @property
    def trouble(self) -> str:
        """The sources whose last read has failed, with the reasons; empty if there are none."""
        return _reasons(reader for reader in self._readers if reader.failures_in_a_row)

    def __iter__(self) -> Iterator[str]:
        rng = random.Random(f"{self._seed}/interleave")
        self._readers = self._open_readers()
        readers, begun = list(self._readers), False
        try:
            while readers:
                moment = self._now()
                ready = [reader for reader in readers if reader.is_ready(moment)]
                if not ready:
                    if not (self._repeat and begun):
                        _give_up_if_all_failed(readers)
                    self._sleep(min(SLEEP_SECONDS, min(reader.retry_at for reader in readers) - moment))
                    continue
                reader = rng.choices(ready, [reader.weight for reader in ready])[0]
                document = reader.draw(moment)
                if document is not None:
                    begun = True
                    yield document
                elif reader.is_finished:
                    readers.remove(reader)
        finally:
            for reader in readers:
                reader.close()

    def _open_readers(self) -> list[ShuffledSource]:
        total = sum(weight for _, weight in self._sources)
        return [
            ShuffledSource(
                source,
                weight=weight,
                seed=f"{self._seed}/{number}",
                repeat=self._repeat,
                buffer=None if self._buffer is None else max(2, round(self._buffer * weight / total)),
            )
            for number, (source, weight) in enumerate(self._sources)
        ]


def _give_up_if_all_failed(readers: Sequence[ShuffledSource]) -> None:
    if all(reader.failures_in_a_row >= ATTEMPTS for reader in readers):
        raise DataError(f"no usable data source, each failed {ATTEMPTS} times in a row: {_reasons(readers)}")


def _reasons(readers: Iterable[ShuffledSource]) -> str:
    return "; ".join(f"{reader.name}: {reader.reason}" for reader in readers)
