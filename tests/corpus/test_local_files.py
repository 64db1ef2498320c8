"""Formats of local files, and how a large text is cut into documents."""

import gzip
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from corpus.local_files import DOCUMENT_BYTES, LocalFiles, read_file
from corpus.source import Failed, Unusable
from swarm.run_file import DataSource
from tests.corpus.small_corpora import stream, write_jsonl, write_parquet


def test_every_format_gives_its_documents(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", ["one", "two"])
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(b'\xef\xbb\xbf{"text": "three"}\n'))
    write_parquet(tmp_path / "c.parquet", ["four", "five"])
    (tmp_path / "d.txt").write_text("\ufeff  six\n\nstill six \n")
    for path, expected in {
        "a.jsonl": ["one", "two"],
        "b.json.gz": ["three"],
        "c.parquet": ["four", "five"],
        "d.txt": ["six\n\nstill six"],
    }.items():
        assert list(stream(tmp_path, path, shuffle=False)) == expected


def test_a_folder_gives_all_its_files_but_the_hidden_and_the_foreign(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "corpus/a.jsonl", ["one"])
    (tmp_path / "corpus/deep/below").mkdir(parents=True)
    (tmp_path / "corpus/deep/below/b.txt").write_text("two")
    (tmp_path / "corpus/.hidden").mkdir()
    (tmp_path / "corpus/.hidden/c.txt").write_text("no")
    (tmp_path / "corpus/.d.txt").write_text("no")
    (tmp_path / "corpus/README.md").write_text("no")
    (tmp_path / "corpus/image.png").write_bytes(b"\x89PNG\0")
    assert list(stream(tmp_path, "corpus", shuffle=False)) == ["one", "two"]


def test_a_named_file_of_unknown_kind_is_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "corpus").write_text("one document")
    assert list(stream(tmp_path, "corpus")) == ["one document"]


@pytest.mark.parametrize("blank", ["\n\n", "\r\n\r\n", "\n \t\n", "\n\n\n\n"], ids=repr)
@pytest.mark.parametrize("word", ["word ", "শব্দ "])
def test_a_larger_text_file_is_cut_at_blank_lines_and_loses_nothing(tmp_path: Path, blank: str, word: str) -> None:
    line_end = "\r\n" if "\r" in blank else "\n"
    paragraphs = [f"paragraph {number}: {word * 50}{line_end}and {word * 20}".strip() for number in range(400)]
    (tmp_path / "large.txt").write_bytes(blank.join(paragraphs).encode())
    documents = list(stream(tmp_path, "large.txt", shuffle=False))
    assert blank.join(documents) == blank.join(paragraphs)
    sizes = [len(document.encode()) for document in documents]
    assert max(sizes) <= DOCUMENT_BYTES and min(sizes[:-1]) > DOCUMENT_BYTES // 2


def test_without_blank_lines_it_is_cut_at_line_ends_and_without_these_at_spaces(tmp_path: Path) -> None:
    for between in ("\n", "\r\n", " "):
        words = [f"word-{number}" for number in range(5_000)]
        (tmp_path / "large.txt").write_bytes(between.join(words).encode())
        documents = list(stream(tmp_path, "large.txt", shuffle=False))
        assert len(documents) > 5 and between.join(documents) == between.join(words)


def test_a_text_file_that_is_not_larger_than_a_document_is_one(tmp_path: Path) -> None:
    text = "ab\n\n" * (DOCUMENT_BYTES // 4 - 1) + "abcd"
    for longer, count in ("", 1), ("e", 2):
        (tmp_path / "text.txt").write_text(text + longer)
        assert len(list(stream(tmp_path, "text.txt"))) == count


def test_text_without_any_blank_is_never_cut_inside_a_character(tmp_path: Path) -> None:
    text = "অ" * 100_000
    (tmp_path / "solid.txt").write_text(text)
    documents = stream(tmp_path, "solid.txt", shuffle=False)
    assert "".join(documents) == text
    assert documents.skipped == 0


def test_a_large_text_file_needs_bounded_memory(tmp_path: Path) -> None:
    with (tmp_path / "large.txt").open("w") as file:
        for number in range(20_000):
            file.write(f"{number} " + "word " * 200 + "\n")
    assert (tmp_path / "large.txt").stat().st_size > 20_000_000
    documents = stream(tmp_path, "large.txt", shuffle=False)
    tracemalloc.start()
    count = sum(1 for _ in documents)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count > 2_000
    assert peak < 1_000_000  # bytes


@pytest.mark.parametrize("name", ["a.jsonl", "a.txt", "solid.txt"])
def test_passes_begin_anywhere_in_a_file_and_still_give_everything_once(tmp_path: Path, name: str) -> None:
    if name == "a.jsonl":
        (tmp_path / name).write_text("".join(f'{{"text": "{number:05}"}}\n' for number in range(5_000)))
    else:
        between = "\n\n" if name == "a.txt" else "অ"
        (tmp_path / name).write_text(between.join(f"{number:05}" for number in range(5_000)))
    source = LocalFiles(tmp_path / name, DataSource(path=name))
    begins = set()
    for seed in range(20):
        documents = list(source.one_pass(random.Random(seed)))
        assert documents == list(source.one_pass(random.Random(seed)))
        texts = [one for one in documents if isinstance(one, str)]
        assert texts == documents
        if name == "solid.txt":  # it has no place where a number would not be cut
            assert sum(map(len, texts)) == 5_000 * 6 - 1
        else:
            found = [int(number) for text in texts for number in text.split()]
            assert sorted(found) == list(range(5_000))
            assert found == [*range(found[0], 5_000), *range(found[0])]
        begins.add(texts[0][:20])
    assert len(begins) >= 15


@pytest.mark.parametrize("content", [b"", b'{"text": "alone"}', b'{"text": "alone"}\n', b"\n", b'\n{"text": "alone"}'])
def test_the_shortest_files_can_be_begun_anywhere(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.jsonl").write_bytes(content)
    for seed in range(9):
        found = list(read_file(tmp_path / "a.jsonl", "text", random.Random(seed)))
        assert found == ["alone"] * content.count(b"alone")


@pytest.mark.parametrize("seed", [None, 5])
def test_a_local_file_goes_on_at_the_document_where_it_failed(
    tmp_path: Path, seed: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"text": "d{number}"}}\n' for number in range(10)))
    failures = iter([True, True])

    def failing(path: Path, text_column: str, order: Any) -> Iterator[str | Unusable]:
        for number, item in enumerate(read_file(path, text_column, order)):
            if number == 5 and next(failures, False):
                raise OSError(5, "Input/output error")
            yield item

    monkeypatch.setattr("corpus.local_files.read_file", failing)
    source = LocalFiles(tmp_path / "a.jsonl", DataSource(path="a.jsonl"))
    items = list(source.one_pass(None if seed is None else random.Random(seed)))
    assert items[5:7] == [Failed(f"{tmp_path}/a.jsonl: Input/output error")] * 2
    documents = items[:5] + items[7:]
    assert sorted(map(str, documents)) == [f"d{number}" for number in range(10)]
    assert (documents[0] == "d0") == (seed is None)


def test_a_parquet_file_that_is_damaged_in_the_middle_is_left_there(tmp_path: Path) -> None:
    table = pyarrow.table({"text": [f"document {number} of many" for number in range(3000)]})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=1000, compression="none", use_dictionary=False)
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    middle = parquet.ParquetFile(tmp_path / "a.parquet").metadata.row_group(1).column(0).data_page_offset
    content[middle : middle + 40] = b"\xff" * 40
    (tmp_path / "a.parquet").write_bytes(content)
    (tmp_path / "b.txt").write_text("of another file")
    items = list(LocalFiles(tmp_path, DataSource(path=str(tmp_path))).one_pass(None))
    assert items[:1000] == [f"document {number} of many" for number in range(1000)]
    (unusable,) = (item for item in items[1000:] if not isinstance(item, str))
    assert isinstance(unusable, Unusable) and "damaged Parquet file" in unusable.reason
    assert items[-1] == "of another file"
