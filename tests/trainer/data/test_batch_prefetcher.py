"""The background worker."""

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from swarm.errors import DataError
from swarm.run_file import RunFile
from tests.support.waiting import PATIENCE, wait_until
from trainer.data import Batch, BatchPrefetcher
from trainer.data.batch_prefetcher import BATCHES_READY, MOST_UNUSABLE

MakePrefetcher = Callable[..., BatchPrefetcher]


def forever(documents: list[str]) -> Iterator[str]:
    while True:
        yield from documents


def long(documents: list[str]) -> str:
    """A document that is tokenized without waiting for the next one."""
    return documents[0] * (1 + 20_000 // len(documents[0]))


def all_of(feed: BatchPrefetcher) -> list[Batch]:
    batches: list[Batch] = []
    while True:
        try:
            batches.append(feed.next())
        except StopIteration:
            return batches


@pytest.fixture
def make(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> MakePrefetcher:
    def make_prefetcher(documents: object, batch_size: int = 4, seed: int = 0) -> BatchPrefetcher:
        return BatchPrefetcher(documents, tokenizer, run, batch_size=batch_size, seed=seed)  # type: ignore[arg-type]

    return make_prefetcher


def test_the_end_of_the_documents_is_told_every_time(make: MakePrefetcher, documents: list[str]) -> None:
    with make(documents[:5], batch_size=8) as feed:
        batches = all_of(feed)
        assert len(batches) > 3
        assert {batch.samples for batch in batches[:-8]} <= {8}
        with pytest.raises(StopIteration):
            feed.next()


def test_the_same_seed_gives_the_same_batches_and_another_one_does_not(
    make: MakePrefetcher, documents: list[str]
) -> None:
    def first_ids(seed: int) -> torch.Tensor:
        with make(documents, seed=seed) as feed:
            return feed.next().input_ids

    assert torch.equal(first_ids(3), first_ids(3))
    assert not torch.equal(first_ids(3), first_ids(4))


def test_an_error_of_the_sources_reaches_the_caller(make: MakePrefetcher, documents: list[str]) -> None:
    def failing() -> Iterator[str]:
        yield from documents[:3]
        raise DataError("text.txt: every source has failed")

    with make(failing()) as feed, pytest.raises(DataError, match="every source has failed"):
        while True:
            feed.next()


def test_an_unforeseen_error_is_told_in_one_line(make: MakePrefetcher) -> None:
    def broken() -> Iterator[str]:
        yield "A document."
        raise RuntimeError("the cable was cut")

    with make(broken()) as feed, pytest.raises(DataError, match="RuntimeError: the cable was cut") as caught:
        feed.next()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["Hi.", "", "\u200b"])
def test_text_too_short_for_any_sample_is_an_error_even_if_it_comes_for_ever(make: MakePrefetcher, text: str) -> None:
    with make([text] * 3) as feed, pytest.raises(DataError, match=r"^text\.txt: no usable text \(documents read: 3\)"):
        feed.next()
    endless = (text or " " for _ in iter(int, 1)) if text == "Hi." else [text] * (MOST_UNUSABLE + 1)
    with make(endless) as feed, pytest.raises(DataError, match="no usable text"):
        feed.next()


def test_a_new_batch_size_holds_from_the_next_batch_on(make: MakePrefetcher, documents: list[str]) -> None:
    with make(forever(documents)) as feed:
        feed.next()
        wait_until(feed._queue.full, "full queue")
        for size in (8, 2, 16):
            feed.set_batch_size(size)
            assert [feed.next().samples for _ in range(20)] == [size] * 20


def test_a_slow_consumer_waits_for_nothing(make: MakePrefetcher, documents: list[str]) -> None:
    full, more = threading.Event(), threading.Event()

    def until_full() -> Iterator[str]:
        while not full.is_set():
            yield from documents
        more.wait(PATIENCE)

    with make(until_full()) as feed:
        feed.next()
        wait_until(feed._queue.full, "full queue")
        full.set()
        for _ in range(BATCHES_READY):
            feed.next()
        more.set()


def test_waiting_for_slow_documents_is_counted(
    make: MakePrefetcher, documents: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("trainer.data.batch_prefetcher.time", SimpleNamespace(monotonic=lambda: clock.now))
    asked, waits = threading.Event(), threading.Event()

    def slow() -> Iterator[str]:
        yield long(documents)
        asked.set()
        assert waits.wait(PATIENCE)
        clock.now += 7.0
        yield from forever(documents)

    with make(slow(), batch_size=32) as feed:
        feed.next()
        get = feed._queue.get

        def get_and_tell(timeout: float | None) -> object:
            if feed._queue.empty() and asked.wait(PATIENCE) and feed._queue.empty():
                waits.set()
            return get(timeout=timeout)

        monkeypatch.setattr(feed._queue, "get", get_and_tell)
        while not waits.is_set():
            feed.next()
        assert feed.wait_seconds == 7.0


@pytest.mark.parametrize("moment", ["at once", "after a batch", "when the queue is full", "while a source hangs"])
def test_closing_waits_for_no_source(make: MakePrefetcher, documents: list[str], moment: str) -> None:
    hangs, released = threading.Event(), threading.Event()

    def hanging() -> Iterator[str]:
        yield long(documents)
        hangs.set()
        released.wait(PATIENCE)

    feed = make(hanging() if moment == "while a source hangs" else forever(documents), batch_size=32)
    with feed:
        if moment != "at once":
            feed.next()
        if moment == "when the queue is full":
            wait_until(feed._queue.full, "full queue")
        if moment == "while a source hangs":
            assert hangs.wait(PATIENCE)
    if moment == "while a source hangs":
        assert feed._thread.is_alive()
    released.set()
    wait_until(lambda: not feed._thread.is_alive(), "end of the thread")


def test_who_cannot_wait_for_a_batch_asks_again_later(make: MakePrefetcher, documents: list[str]) -> None:
    asked, goes_on = threading.Event(), threading.Event()

    def stalled() -> Iterator[str]:
        yield long(documents)
        asked.set()
        goes_on.wait()
        yield from documents

    with make(stalled(), batch_size=2) as feed:
        wait_until(  # in this order: what was asked for before the look is not ready after it
            lambda: (asked.is_set(), feed.within(0.0) is None) == (True, True) and feed.wait_seconds > 0.0,
            "end of what was ready",
        )
        assert feed.within(0.01) is None and feed.wait_seconds >= 0.01
        goes_on.set()
        assert feed.next().samples == 2
        with pytest.raises(StopIteration):
            while True:
                feed.within(PATIENCE)
