"""Labelled data: rows of JSON lines, CSV and TSV files, and examples, the one form of all files and datasets."""

import csv
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swarm.errors import DataError
from swarm.files import lookup_errors

JSONL_SUFFIXES = (".jsonl", ".json", ".ndjson")
TABLE_SUFFIXES = (".csv", ".tsv")


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file without their ends, counted from 1; a byte order mark is dropped.

    Raises:
        DataError: the file is missing, cannot be read, or is not UTF-8.
    """
    with lookup_errors(path, DataError):
        is_file = path.is_file()
    if not is_file:
        raise DataError(f"{path}: no such file; correct the path")
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                # decoded here and not by open(), which could not tell the line; and only \n ends one
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield number, text.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}:{number}: not UTF-8 (byte {error.start + 1} of the line); convert the file to UTF-8"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None


@dataclass(frozen=True)
class Row:
    """One row and where it stands, for messages."""

    values: dict[str, Any]
    place: str


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a file, read by its suffix.

    Raises:
        DataError: the file cannot be read, or a line is no row.
    """
    return _read_jsonl(path) if path.suffix.lower() in JSONL_SUFFIXES else _read_table(path)


def _read_jsonl(path: Path) -> Iterator[Row]:
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            raise DataError(f"{path}:{number}: not a JSON object; each line must hold one, as {{...}}")
        yield Row(values, f"{path}:{number}")


def _read_table(path: Path) -> Iterator[Row]:
    at = 0

    def lines() -> Iterator[str]:
        nonlocal at
        for number, line in numbered_lines(path):
            at = number
            yield line + "\n"

    csv.field_size_limit(sys.maxsize)  # else a cell of more than 131,072 characters is an error
    reader = csv.reader(lines(), delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
    try:
        header = next(reader, [])
        begins = at + 1
        for cells in reader:
            place, begins = f"{path}:{begins}", at + 1  # a quoted cell may go over several lines
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                raise DataError(
                    f"{place}: {len(cells)} columns, but the first line names {len(header)}; put text that holds the "
                    "separator in double quotes"
                )
            yield Row(dict(zip(header, cells, strict=True)), place)
    except csv.Error as error:
        raise DataError(f"{path}:{at}: not a row of a table ({error}); close its quotes") from None


@dataclass(frozen=True)
class Example:
    """The words of a sentence with a tag for each; for classification one text and its one label."""

    inputs: tuple[str, ...]
    labels: tuple[str, ...]
    place: str
    """For messages: a file and a line, or a dataset, a split and a row."""


@dataclass(frozen=True)
class Split:
    """The examples of one purpose: train, validation or test."""

    name: str
    source: str
    """A file, or a dataset and its split."""
    examples: tuple[Example, ...]
    left_out: tuple[str, ...] = field(default=())
    """One line for each sentence that could not be used: where it is, and why."""


@dataclass(frozen=True)
class TaskData:
    """The data of a task; for evaluation alone only `test`."""

    test: Split
    train: Split | None = None
    validation: Split | None = None
    notes: tuple[str, ...] = ()
    """Lines for people: how it was read."""

    @property
    def splits(self) -> tuple[Split, ...]:
        """Those that are there, in their usual order."""
        return tuple(split for split in (self.train, self.validation, self.test) if split is not None)
