"""Prepares masked batches in a background thread, so that the training loop does not wait for data."""

import queue
import threading
import time
from collections.abc import Iterable, Iterator
from types import TracebackType

import numpy as np
from transformers import PreTrainedTokenizerFast

from swarm.errors import DataError
from swarm.run_file import RunFile
from trainer.data.batch import Batch, Collator
from trainer.data.instances import Instance, make_instances
from trainer.data.sentences import tokenized_documents

BATCHES_READY = 16  # batches in the queue
MOST_UNUSABLE = 10_000  # documents without a single sample among them, after which the text is given up
POOL = 8  # batches whose instances are sorted by length together, so that batches need little padding


class BatchPrefetcher:
    """Makes batches of documents in a thread while its context is open; `next` gives them until the documents end.

    It is a thread and not a process because the tokenizer, which is most of the work, runs outside Python's lock, a
    second process would need a few hundred megabytes, and hivemind has to fork in between.
    """

    def __init__(
        self,
        documents: Iterable[str],
        tokenizer: PreTrainedTokenizerFast,
        run: RunFile,
        *,
        batch_size: int,
        seed: int,
    ):
        self.wait_seconds = 0.0  # that `next` was blocked, the first batch not counted
        self._documents, self._tokenizer, self._run = documents, tokenizer, run
        self.batch_size = batch_size  # samples in a batch
        self._seed = seed
        self._collator = Collator(tokenizer, run.data)
        self._queue: queue.Queue[tuple[int, Batch | Exception]] = queue.Queue(maxsize=BATCHES_READY)
        self._closed = threading.Event()
        self._first = True
        self._thread = threading.Thread(target=self._work, name="batches", daemon=True)

    def __enter__(self) -> "BatchPrefetcher":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the thread; waits at most a second for it."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)

    def set_batch_size(self, batch_size: int) -> None:
        """Samples in the batches from now on; those that were ready are dropped."""
        self.batch_size = batch_size
        self._first = True

    def longest(self, samples: int) -> Batch:
        """A made-up batch of so many samples, as long as any that `next` gives."""
        return self._collator.longest(samples)

    @property
    def trouble(self) -> str:
        """The sources whose last read has failed, with the reasons; empty if there are none."""
        return str(getattr(self._documents, "trouble", ""))

    def next(self) -> Batch:
        """The next batch, however long it takes: see `within`."""
        batch = self.within(None)
        assert batch is not None
        return batch

    def within(self, seconds: float | None) -> Batch | None:
        """The next batch, or None if it is not ready within so many seconds.

        Raises:
            DataError: there is no usable text, or every source has failed before the first document.
            StopIteration: the documents have ended.
        """
        began = time.monotonic()
        try:
            size, item = self._queue.get(timeout=seconds)
            while size != self.batch_size and isinstance(item, Batch):  # made before its size was set
                size, item = self._queue.get(timeout=seconds)
        except queue.Empty:
            item = None
        if not self._first:
            self.wait_seconds += time.monotonic() - began
        if isinstance(item, Exception):
            self._queue.put((size, item))  # the next call raises it again
            raise item
        self._first = self._first and item is None
        return item

    def _work(self) -> None:
        try:
            for size, batch in self._batches():
                if not self._put(size, batch):
                    return
            self._put(0, StopIteration("the documents have ended"))
        except DataError as error:
            self._put(0, error)
        except Exception as error:
            self._put(0, DataError(f"the text could not be prepared ({type(error).__name__}: {error})"))

    def _put(self, size: int, item: Batch | Exception) -> bool:
        while not self._closed.is_set():
            try:
                self._queue.put((size, item), timeout=0.2)
                return True
            except queue.Full:
                continue
        return False

    def _batches(self) -> Iterator[tuple[int, Batch]]:
        """Batches with the size they were made for; the last one, or one after that has changed, may be smaller."""
        rng = np.random.default_rng(self._seed)
        pool: list[Instance] = []
        batches = 1  # in the pool; the first pool is small, so that it is quickly ready
        for instance in self._instances(rng):
            if self._closed.is_set():
                return
            pool.append(instance)
            size = self.batch_size
            if len(pool) >= batches * size:
                for chunk in _by_length(pool, size, rng):
                    yield size, self._collator(chunk, rng)
                pool, batches = [], min(2 * batches, POOL)
        for chunk in _by_length(pool, self.batch_size, rng):
            yield self.batch_size, self._collator(chunk, rng)

    def _instances(self, rng: np.random.Generator) -> Iterator[Instance]:
        found, unusable = False, 0  # documents too short to make a sample
        for sentences in tokenized_documents(self._documents, self._tokenizer, self._run.language):
            usable = False
            for instance in make_instances(sentences, self._run.data, rng, swap=self._run.model.learns_order):
                usable = True
                yield instance
            found = found or usable
            unusable += not usable
            if not found and unusable >= MOST_UNUSABLE:
                break
        if not found:
            sources = ", ".join(source.name for source in self._run.data.train)
            raise DataError(
                f"{sources}: no usable text (documents read: {unusable:,}); give sources with longer documents"
            )


def _by_length(pool: list[Instance], size: int, rng: np.random.Generator) -> list[list[Instance]]:
    """Batches of similar length in random order; which instances meet is random among equal lengths."""
    order = rng.permutation(len(pool))
    ordered = sorted((pool[i] for i in order), key=lambda one: len(one.first) + len(one.second))
    batches = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    return [batches[i] for i in rng.permutation(len(batches))]
