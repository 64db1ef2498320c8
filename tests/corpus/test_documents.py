"""Documents of the run file's sources: their order, their mixture, and what may be broken in them."""

import gzip
import itertools
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from corpus.documents import DocumentStream, open_documents
from corpus.local_files import MOST_UNUSABLE
from swarm.errors import DataError
from swarm.run_file import DataSource
from tests.corpus.small_corpora import numbered, run_in, stream, write_jsonl, write_parquet


class Clock:
    """A clock that only sleeping moves on."""

    def __init__(self) -> None:
        self.time = 0.0
        self.naps: list[float] = []

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.naps.append(seconds)


# --- order and mixture


def test_a_pass_yields_every_document_once(tmp_path: Path) -> None:
    texts = numbered("d", 3_000)
    write_jsonl(tmp_path / "a.jsonl", texts)
    documents = list(stream(tmp_path, "a.jsonl"))
    assert sorted(documents) == sorted(texts)
    assert documents != texts


def test_another_seed_gives_another_order_and_the_same_seed_the_same(tmp_path: Path) -> None:
    for number in range(5):
        write_jsonl(tmp_path / f"corpus/{number}.jsonl", numbered(f"{number}-", 50))
    orders = [tuple(stream(tmp_path, "corpus", seed=seed)) for seed in (1, 2, 3, 1)]
    assert len(set(orders)) == 3
    assert orders[0] == orders[3]


def test_repeating_shuffles_each_pass_anew(tmp_path: Path) -> None:
    texts = numbered("d", 100)
    write_jsonl(tmp_path / "a.jsonl", texts)
    documents = list(itertools.islice(stream(tmp_path, "a.jsonl", repeat=True), 300))
    passes = [documents[:100], documents[100:200], documents[200:]]
    assert all(sorted(each) == sorted(texts) for each in passes)
    assert passes[0] != passes[1] != passes[2]


def test_row_groups_of_a_parquet_file_are_shuffled(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", numbered("d", 20_000), rows=100)
    firsts = {int(next(iter(stream(tmp_path, "a.parquet", seed=seed)))[1:]) for seed in range(8)}
    assert max(firsts) > 5_000


def test_the_first_document_does_not_wait_for_a_full_buffer(tmp_path: Path) -> None:
    read = 0

    class Counting:
        name, is_remote = "counting", False

        def one_pass(self, order: random.Random | None) -> Iterator[str]:
            nonlocal read
            for read in itertools.count(1):
                yield f"d{read}"

    documents = DocumentStream(
        [(Counting(), 1.0)], seed=0, repeat=False, buffer=10_000, now=lambda: 0.0, sleep=lambda seconds: None
    )
    list(itertools.islice(documents, 1))
    assert read <= 300
    list(itertools.islice(documents, 12_000))
    assert 21_000 < read <= 22_000


def test_a_buffer_of_long_documents_is_no_larger_than_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corpus.shuffled_source.MOST_CHARACTERS", 50_000)
    read = 0

    class Books:
        name, is_remote = "books", False

        def one_pass(self, order: random.Random | None) -> Iterator[str]:
            nonlocal read
            for read in range(1, 1001):
                yield f"{read}" + 999 * "a"

    documents = DocumentStream(
        [(Books(), 1.0)], seed=0, repeat=False, buffer=10_000, now=lambda: 0.0, sleep=lambda seconds: None
    )
    for drawn, _ in enumerate(documents):
        assert read - drawn <= 50
    assert drawn == 999


def test_sources_are_drawn_from_by_weight(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", numbered("a", 10))
    write_jsonl(tmp_path / "b.jsonl", numbered("b", 1_000))
    sources = [DataSource(path="a.jsonl", weight=3), DataSource(path="b.jsonl", weight=1)]
    documents = open_documents(run_in(tmp_path), sources, seed=0, repeat=True)
    drawn = Counter(text[0] for text in itertools.islice(documents, 8_000))
    # four standard deviations of a binomial with p = 0.75
    assert abs(drawn["a"] / 8_000 - 0.75) < 4 * (0.75 * 0.25 / 8_000) ** 0.5


# --- what is broken


def test_broken_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    lines = [b'{"text": "good"}', b"{broken", b'{"text": "  "}', b'{"text": 7}', b'{"body": "x"}', b"[1]"]
    lines += [b'{"text": "\xff"}', b'{"text": "\\ud800"}', b"", b'{"text": "also good"}', b'{"text": "cut o']
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    documents = stream(tmp_path, "a.jsonl", shuffle=False)
    assert list(documents) == ["good", "also good"]
    assert documents.skipped == 8


def test_a_damaged_file_of_a_folder_is_skipped_and_counted(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "corpus/a.jsonl", ["one"])
    whole = gzip.compress("".join(f'{{"text": "{random.random()}"}}\n' for _ in range(20_000)).encode())
    (tmp_path / "corpus/b.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "corpus/c.parquet").write_bytes(b"PAR1 and nothing more")
    (tmp_path / "corpus/d.txt").write_bytes(b"\0\1\2" * 100_000)
    write_jsonl(tmp_path / "corpus/e.jsonl", ["two"])
    documents = stream(tmp_path, "corpus", shuffle=False)
    texts = list(documents)
    assert texts[0] == "one" and texts[-1] == "two"
    assert len(texts) > 1_000
    assert documents.skipped in (3, 4)  # the line that the broken gzip stream ends in may be one of its own


def test_null_and_binary_values_of_a_parquet_column_are_skipped(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"text": ["one", None, "", "two"]}), tmp_path / "a.parquet")
    documents = stream(tmp_path, "a.parquet", shuffle=False)
    assert list(documents) == ["one", "two"]
    assert documents.skipped == 2


# --- what can not heal


@pytest.mark.parametrize(
    ("corpus", "says"),
    [
        (None, "no such file or folder"),
        ({}, "no corpus files in this folder"),
        ({"a.png": b"\x89PNG"}, "no corpus files in this folder"),
        (b"", "an empty file"),
        (b" \n\n ", "not one usable document"),
        (bytes(range(256)) * 100, "a binary file"),
        ("café ".encode("latin-1") * 100, "a binary file"),
        ({"a.txt": bytes(100), "b.txt": bytes(100)}, "a binary file"),
        ({"a.jsonl": b'{"body": "x"}\n' * 20_000}, "no column 'text' but body; set text_column"),
    ],
)
@pytest.mark.parametrize("repeat", [False, True])
def test_a_corpus_without_text_ends_in_one_clear_line(
    corpus: bytes | dict[str, bytes] | None, says: str, repeat: bool, tmp_path: Path
) -> None:
    if isinstance(corpus, dict):
        (tmp_path / "corpus").mkdir()
        for name, content in corpus.items():
            (tmp_path / "corpus" / name).write_bytes(content)
    elif corpus is not None:
        (tmp_path / "corpus").write_bytes(corpus)
    write_jsonl(tmp_path / "good.jsonl", ["good"] * 100)
    with pytest.raises(DataError) as caught:
        list(stream(tmp_path, "good.jsonl", "corpus", repeat=repeat))
    message = str(caught.value)
    assert "corpus" in message and says in message and "\n" not in message


@pytest.mark.parametrize("seed", range(4))
def test_a_pretty_printed_file_in_a_folder_does_not_end_the_run(seed: int, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "corpus/a.jsonl", ["good"] * 10)
    (tmp_path / "corpus/b.json").write_text("[\n" + '  "line",\n' * 20_000 + "]\n")
    documents = stream(tmp_path, "corpus", seed=seed)
    assert list(documents) == ["good"] * 10
    assert documents.skipped == MOST_UNUSABLE


def test_a_file_that_begins_with_very_many_empty_texts_is_read_on(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", [""] * (MOST_UNUSABLE + 1) + ["good"])
    assert list(stream(tmp_path, "a.jsonl")) == ["good"]


# --- what fails and may heal


def test_a_file_that_vanishes_is_retried_while_the_others_go_on_and_comes_back(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", ["a"])
    write_jsonl(tmp_path / "b.jsonl", ["b"])
    clock = Clock()
    documents = stream(tmp_path, "a.jsonl", "b.jsonl", repeat=True, now=clock.now, sleep=clock.sleep)
    (tmp_path / "b.jsonl").rename(tmp_path / "away")
    reading = iter(documents)
    assert set(itertools.islice(reading, 100)) == {"a"}
    assert documents.trouble.startswith("b.jsonl: ")
    (tmp_path / "away").rename(tmp_path / "b.jsonl")
    clock.time += 0.9  # the first retry comes after a second
    assert set(itertools.islice(reading, 100)) == {"a"}
    clock.time += 0.1
    assert set(itertools.islice(reading, 100)) == {"a", "b"}
    assert clock.naps == []


def test_a_folder_goes_on_with_a_file_that_comes_back(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "corpus/a.jsonl", numbered("a", 10))
    write_jsonl(tmp_path / "corpus/b.jsonl", numbered("b", 10))
    clock = Clock()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if clock.time > 5 and (tmp_path / "away").exists():
            (tmp_path / "away").rename(tmp_path / "corpus/b.jsonl")

    documents = stream(tmp_path, "corpus", shuffle=False, now=clock.now, sleep=sleep)
    (tmp_path / "corpus/b.jsonl").rename(tmp_path / "away")
    assert list(documents) == numbered("a", 10) + numbered("b", 10)
    assert sum(clock.naps) == pytest.approx(1 + 2 + 4)


def test_a_source_alone_is_given_up_after_some_attempts_with_its_last_reason(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", ["a"])
    clock = Clock()
    documents = stream(tmp_path, "a.jsonl", now=clock.now, sleep=clock.sleep)
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(DataError, match=r"a\.jsonl: .*No such file") as caught:
        list(documents)
    assert "\n" not in str(caught.value)
    assert sum(clock.naps) == pytest.approx(1 + 2 + 4 + 8)


def test_a_program_that_trains_waits_for_a_source_that_it_has_read(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", numbered("a", 3))
    clock, reasons = Clock(), set()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        reasons.add(documents.trouble)
        if clock.time > 100_000 and (tmp_path / "away").exists():
            (tmp_path / "away").rename(tmp_path / "a.jsonl")

    documents = stream(tmp_path, "a.jsonl", repeat=True, now=clock.now, sleep=sleep)
    reading = iter(documents)
    first = next(reading)
    (tmp_path / "a.jsonl").rename(tmp_path / "away")
    assert {first, *itertools.islice(reading, 20)} == set(numbered("a", 3))
    assert 100_000 < clock.time < 100_070
    assert len(reasons) == 1 and "a.jsonl: " in reasons.pop() and not documents.trouble


def test_a_source_that_dies_while_others_are_finished_is_an_error_not_a_short_corpus(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", ["a"])
    write_jsonl(tmp_path / "b.jsonl", ["b"])
    clock = Clock()
    documents = stream(tmp_path, "a.jsonl", "b.jsonl", now=clock.now, sleep=clock.sleep)
    (tmp_path / "b.jsonl").unlink()
    with pytest.raises(DataError, match=r"b\.jsonl"):
        list(documents)
