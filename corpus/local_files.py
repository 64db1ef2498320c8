"""Local files, read in passes that resume where they failed; in bounded memory and whatever is broken in them.

A bad line never ends the reading: an `Unusable` is yielded in its place. Only a failing disk or network raises, an
OSError.
"""

import contextlib
import gzip
import io
import json
import math
import random
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from corpus.source import Failed, Item, Unusable, usable
from swarm.errors import DataError
from swarm.files import lookup_errors
from swarm.run_file import DataSource

TEXT_SUFFIXES = (".txt", ".text")
JSONL_SUFFIXES = (".jsonl", ".json", ".ndjson")
PARQUET_SUFFIXES = (".parquet",)

# A text file of more bytes than this is cut into documents of at most so many, and at least half as many: each is some
# samples of consecutive sentences, and 200 KB of text are enough of them to shuffle and to keep some from training
DOCUMENT_BYTES = 8 * 1024
# How much of a file is read to tell whether it is text
BLOCK_BYTES = 64 * 1024
# A longer JSON line is not a document but a file without line ends
MAX_LINE_BYTES = 64 * 1024 * 1024
# Lines at the beginning of a JSON file after which it is left
MOST_UNUSABLE = 1_000
NO_OBJECT = Unusable("not a JSON object on one line")
# Rows of a Parquet file that are decoded at a time
PARQUET_ROWS = 256
# Where it is cut: after the last blank line of a document's second half, else after the last line end or space of it
CUTS = tuple(map(re.compile, (rb"\n[ \t\r]*\n", rb"\n", rb" ")))


def is_supported(path: Path) -> bool:
    """Whether a file in a folder is read as a corpus file."""
    return kind(path) in TEXT_SUFFIXES + JSONL_SUFFIXES + PARQUET_SUFFIXES


def kind(path: Path) -> str:
    """The suffix that decides how a file is read: `.jsonl` for corpus.jsonl.gz."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def is_binary(path: Path) -> bool:
    """Whether the first block of a file is not text: NUL bytes or, except in JSON lines, broken UTF-8."""
    if kind(path) in PARQUET_SUFFIXES:
        return False
    try:
        with _opened(path) as file:
            block = file.read(BLOCK_BYTES)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        return True
    if b"\0" in block:
        return True
    if kind(path) in JSONL_SUFFIXES:
        return False
    try:
        # a character may lie across the end of the block; its first bytes are no error
        block[: _whole_characters(block)].decode()
    except UnicodeDecodeError:
        return True
    return False


def read_file(path: Path, text_column: str, order: random.Random | None = None) -> Iterator[str | Unusable]:
    """The documents of one file.

    Args:
        path: a Parquet file, JSON lines, or, with any other suffix, UTF-8 text; the last two may be gzipped.
        text_column: the column or key that holds the text; text files have none.
        order: shuffles the row groups of a Parquet file, and chooses where to begin in one of lines or text: what is
            before that comes last. Gzipped files are read from the front.

    Raises:
        OSError: the file cannot be opened or read now.
    """
    if kind(path) in PARQUET_SUFFIXES:
        yield from _read_parquet(path, text_column, order)
        return
    try:
        with _opened(path) as file:
            is_jsonl = kind(path) in JSONL_SUFFIXES
            begin = 0 if order is None or _is_gzipped(path) else _random_start(file, order, is_jsonl=is_jsonl)
            yield from read_jsonl(file, text_column, begin) if is_jsonl else read_text(file, begin)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        yield Unusable(f"damaged gzip file ({error})")


def read_jsonl(file: BinaryIO, text_column: str, begin: int = 0) -> Iterator[str | Unusable]:
    """One document from each line: a JSON object whose key `text_column` holds the text.

    A file whose first `MOST_UNUSABLE` lines are no objects, as where one object goes over many lines, is left there.

    Args:
        begin: place of the line to begin with; those before it come last.
    """
    left: float = MOST_UNUSABLE
    for start, end in _reading_order(begin):
        file.seek(start)
        while left and file.tell() < end and (line := file.readline(MAX_LINE_BYTES)):
            if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                _skip_line(file)
                yield Unusable("a line without end; JSON files must hold one object a line")
            elif line.strip():
                document = _json_document(line, text_column)
                left = left - 1 if document == NO_OBJECT else math.inf
                yield document


def read_text(file: BinaryIO, begin: int = 0) -> Iterator[str | Unusable]:
    """The whole file as one document, or runs of paragraphs with as many of them as `DOCUMENT_BYTES` hold.

    Args:
        begin: place in the file to begin at; what is before it comes last.
    """
    for start, end in _reading_order(begin):
        file.seek(start)
        text = b""
        while True:
            text += file.read(min(DOCUMENT_BYTES + 1 - len(text), end - file.tell()))
            if len(text) <= DOCUMENT_BYTES:
                break
            cut = _cut(text[:DOCUMENT_BYTES])
            yield _decode(text[:cut])
            text = text[cut:]
        if text:
            yield _decode(text)


class LocalFiles:
    """A JSONL, Parquet or text file, or all of them below a folder."""

    is_remote = False

    def __init__(self, path: Path, source: DataSource) -> None:
        self.name = source.name
        self._text_column = source.text_column
        self._files = find_files(path)
        if len(self._files) == 1:
            with lookup_errors(self._files[0], DataError):
                binary = is_binary(self._files[0])
            if binary:
                raise DataError(
                    f"{self._files[0]}: a binary file, not UTF-8 text; convert it to UTF-8 text or JSON lines"
                )

    def one_pass(self, order: random.Random | None) -> Iterator[Item]:
        """All documents once; files, what they begin with, and row groups of Parquet files are chosen by `order`."""
        files = list(self._files)
        if order is not None:
            order.shuffle(files)
        for file in files:
            yield from self._read(file, None if order is None else order.random())

    def _read(self, file: Path, order: float | None) -> Iterator[Item]:
        done = 0
        while True:
            try:
                # a binary file in a folder would otherwise come as thousands of unusable documents
                if len(self._files) > 1 and is_binary(file):
                    yield Unusable(f"{file.name} is a binary file, not UTF-8 text")
                    return
                documents = read_file(file, self._text_column, None if order is None else random.Random(order))
                for number, item in enumerate(documents):
                    if number < done:
                        continue
                    done += 1
                    yield item
                return
            except OSError as error:
                yield Failed(f"{file}: {error.strerror or error}")


def find_files(path: Path) -> list[Path]:
    """The file itself, or the supported files below a folder, sorted by name, hidden ones left out.

    Raises:
        DataError: there is nothing to read.
    """
    with lookup_errors(path, DataError):
        if not path.exists():
            raise DataError(f"{path}: no such file or folder; correct the path of this data source")
        if not path.is_dir():
            if path.stat().st_size == 0:
                raise DataError(f"{path}: an empty file; give a file that holds text")
            return [path]
        files = [file for file in sorted(path.rglob("*")) if file.is_file() and is_supported(file)]
    files = [file for file in files if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    if not files:
        raise DataError(f"{path}: no corpus files in this folder; put .jsonl, .json, .parquet or .txt files there")
    return files


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as file:
        yield cast(BinaryIO, gzip.GzipFile(fileobj=file)) if _is_gzipped(path) else file


def _is_gzipped(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _random_start(file: BinaryIO, order: random.Random, *, is_jsonl: bool) -> int:
    """A place where a document may begin, anywhere in the file."""
    size = file.seek(0, io.SEEK_END)
    if size <= (0 if is_jsonl else DOCUMENT_BYTES):
        return 0
    place = file.seek(order.randrange(size))
    if not is_jsonl:
        return (place + _cut(file.read(DOCUMENT_BYTES))) % size
    _skip_line(file)
    return file.tell() % size


def _reading_order(begin: int) -> tuple[tuple[int, int], ...]:
    """Where to start reading, and where to end, one after the other."""
    return ((begin, sys.maxsize), (0, begin)) if begin else ((0, sys.maxsize),)


def _skip_line(file: BinaryIO) -> None:
    while (part := file.readline(MAX_LINE_BYTES)) and not part.endswith(b"\n"):
        pass


def _json_document(line: bytes, text_column: str) -> str | Unusable:
    try:
        row: Any = json.loads(line.decode().removeprefix("\ufeff"))  # a byte order mark begins some files
    except UnicodeDecodeError:
        return Unusable("not UTF-8")
    except (ValueError, RecursionError):
        return NO_OBJECT
    if not isinstance(row, dict):
        return NO_OBJECT
    if text_column not in row:
        return _no_column(text_column, list(row))
    return usable(row[text_column])


def _read_parquet(path: Path, text_column: str, order: random.Random | None) -> Iterator[str | Unusable]:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if text_column not in names:
                yield _no_column(text_column, names)
                return
            row_groups = list(range(file.num_row_groups))
            if order is not None:
                order.shuffle(row_groups)
            for group in row_groups:
                for batch in file.iter_batches(PARQUET_ROWS, row_groups=[group], columns=[text_column]):
                    for value in batch.column(0):
                        yield _parquet_document(value)
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk, which may heal
        yield Unusable(f"damaged Parquet file ({' '.join(str(error).split())})")


def _parquet_document(value: Any) -> str | Unusable:
    try:
        return usable(value.as_py())
    except UnicodeDecodeError:
        return Unusable("not UTF-8")


def _no_column(text_column: str, names: list[str]) -> Unusable:
    return Unusable(f"no column {text_column!r} but {', '.join(names[:8]) or 'none at all'}; set text_column")


def _decode(data: bytes) -> str | Unusable:
    try:
        return usable(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return Unusable("not UTF-8")


def _cut(text: bytes) -> int:
    """Where to end a document: at the best of `CUTS`, or after any character where there is none."""
    for cut in CUTS:
        if ends := [found.end() for found in cut.finditer(text, len(text) // 2)]:
            return ends[-1]
    return _whole_characters(text)


def _whole_characters(data: bytes) -> int:
    """The length of `data` without the unfinished UTF-8 character at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) if back >= needed else len(data) - back
        if byte < 0x80:
            break
    return len(data)
