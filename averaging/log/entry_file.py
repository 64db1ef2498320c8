"""Entries of the log in a file that only grows, each in a line with a checksum.

A coordinator writes down every header once it knows of it, of whatever chain: the headers that it has applied, and
others for their credit. The chain is found by going back from the newest one that was applied. Where the disk has lost
some bytes, the next whole line tells where to go on.
"""

import base64
import itertools
import logging
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from averaging.log.header import Entry, Gap
from averaging.log.packing import Packed, pack, unpack
from swarm.errors import StorageError
from swarm.files import fsync, storage_errors

logger = logging.getLogger(__name__)

_TORN = 1 << 16  # bytes that a crash leaves of a log's first entries, at most
_END = 1 << 20  # bytes at the end of a log, in which its newest step is looked for first


class Record(Packed, frozen=True):
    """What the file has of an entry."""

    entry: Entry
    is_applied: bool  # the state is that after this header
    is_proven: bool = True  # its certificate was checked; headers for their credit alone are believed by digest


@dataclass(frozen=True)
class Place:
    """In the file: before it are the entries up to one with this digest."""

    start: int  # of the line of that entry, in bytes
    digest: str


def line_of(value: Any) -> bytes:
    """A value as a line that can be told from one that was cut short or garbled."""
    return _line(pack(value))


def _line(content: bytes) -> bytes:
    return b"%08x %s\n" % (zlib.crc32(content), base64.b64encode(content))


def value_of(line: bytes, kind: Any, path: Path) -> Any:
    """The value of a kind in a line of a file; None if the line is broken.

    Raises:
        StorageError: the file is that of another version.
    """
    try:
        content = base64.b64decode(line[9:-1], validate=True)
    except ValueError:
        return None
    if line != _line(content):
        return None
    try:
        return unpack(kind, content)
    except ValueError:  # the line is whole: no disk has done that
        raise StorageError(
            f"{path}: written by another version of this program; go on with that one, or move the folder away to "
            "begin without it"
        ) from None


class EntryFile:
    """All entries that a peer has learned of, in that order."""

    def __init__(self, path: Path):
        self._path = path
        self._starts: list[tuple[int, int]] = []  # step and first byte of the newest entries
        self._end: int | None = None
        self.whole: int | None = None  # records that were loaded before the first ones that were lost; None: none was

    @property
    def end(self) -> int:
        """Bytes up to the end of the last whole entry; what a failed write has left behind it does not count.

        Raises:
            StorageError: the file cannot be read.
        """
        if self._end is None:
            end = max((after for _, after, _ in _records(self._path, 0)), default=0)
            self._broken_bytes(end)
            self._end = end
        return self._end

    def _broken_bytes(self, end: int) -> int:
        """After the last whole entry. Where there is none, a log that is not read must not be written over."""
        size = self._path.stat().st_size if self._path.exists() else 0
        if not end and size > _TORN:
            raise StorageError(
                f"{self._path}: none of its {size:,} bytes is an entry of a log; bring the folder back from a copy, or "
                "move it away to begin without it"
            )
        return size - end

    def load(self, start: int = 0) -> list[Record]:
        """The records from a byte on. What follows the last whole one is cut off when the file is written next.

        Raises:
            StorageError: the file cannot be read, or is no log.
        """
        self._end, self.whole, self._starts = None, None, []
        records: list[Record] = []
        end = start
        for begin, after, record in _records(self._path, start):
            if begin > end:
                _lost(self._path, end, begin)
                self.whole = len(records) if self.whole is None else self.whole
            records.append(record)
            if record.is_proven:  # those for their credit alone are in no chain
                self._starts.append((record.entry.header.step, begin))
            end = after
        broken, self._end = self._broken_bytes(end), end
        if broken > 0 and (records or not start):
            where = f"after step {records[-1].entry.header.step}" if records else "from the first step on"
            logger.warning("%s: %d bytes %s are broken and were left out", self._path, broken, where)
        return records

    def since(self, step: int) -> int:
        """The byte from which on the file has the entries of this step and later ones.

        Earlier ones are not looked for again.
        """
        dropped = itertools.takewhile(lambda one: one[0] < step, self._starts)
        self._starts = self._starts[sum(1 for _ in dropped) :]
        return self._starts[0][1] if self._starts else self.end

    def append(self, records: Sequence[Record]) -> int:
        """Add records, and have them on the disk. A failure leaves those before them.

        Returns the byte at which they begin.

        Raises:
            StorageError: the disk is full or the file cannot be written.
        """
        if not records:
            return self.end
        begin, lines, starts = self.end, b"", []
        for record in records:
            if record.is_proven:
                starts.append((record.entry.header.step, begin + len(lines)))
            lines += line_of(record)
        with storage_errors(self._path):
            is_new = not self._path.exists()
            if is_new:
                self._path.touch(0o600)
            with self._path.open("r+b") as file:
                file.truncate(begin)  # what a longer write has left must not follow a shorter one
                file.seek(begin)
                file.write(lines)
            fsync(self._path)
            if is_new:
                fsync(self._path.parent)
        self._starts += starts
        self._end = begin + len(lines)
        return begin


def chain_of(records: Sequence[Record]) -> list[Entry]:
    """The entries up to the newest one that was applied, as far back as they are there and proven."""
    known = {record.entry.header.digest: record.entry for record in records if record.is_proven}
    digest = next((one.entry.header.digest for one in reversed(records) if one.is_applied), "")
    found: list[Entry] = []
    while digest in known:
        found.append(known[digest])
        digest = found[-1].header.previous
    return found[::-1]


def entries_after(
    path: Path, place: Place | None, most: int, lost: Callable[[], None] = lambda: None
) -> tuple[list[Entry], Place | None]:
    """The next entries of the file, and the place after them. Another thread may write the file meanwhile.

    They are those after `place`; the first ones of the file where it has no such place, since it is another file.

    Args:
        lost: is called where something between them is broken; `missing_in` tells what.

    Raises:
        StorageError: the file cannot be read.
    """
    end = 0 if place is None else place.start
    records = _records(path, end)
    if place is not None:
        begin, end, first = next(records, (0, 0, None))
        if first is None or (begin, first.entry.header.digest) != (place.start, place.digest):
            return entries_after(path, None, most, lost)
    entries: list[Entry] = []
    for begin, after, record in itertools.islice(records, most):
        if begin > end:
            _lost(path, end, begin)
            lost()
        entries.append(record.entry)
        place, end = Place(begin, record.entry.header.digest), after
    return entries, place


def missing_in(path: Path) -> list[Gap]:
    """Headers that others in the file name as those before them, and that it does not have.

    Raises:
        StorageError: the file cannot be read.
    """
    steps, named = dict[str, int](), dict[str, int]()
    for _, _, record in _records(path, 0):
        header = record.entry.header
        steps[header.digest], named[header.previous] = header.step, header.step - 1
    missing = [(step, one) for one, step in named.items() if step > 0 and one and one not in steps]
    return [
        Gap(step, one, above=max((known for known in steps.values() if known < step), default=0))
        for step, one in missing
    ]


def newest_step(path: Path) -> int | None:
    """The step of the header that was applied last.

    Raises:
        StorageError: the file cannot be read.
    """
    newest, looked_at = None, 0
    with storage_errors(path):
        size = path.stat().st_size if path.exists() else 0
    while newest is None and looked_at < size:  # a line that is cut at its beginning is broken, and passed over
        looked_at = 8 * looked_at or _END
        for _, _, record in _records(path, max(0, size - looked_at)):
            if record.is_applied:
                newest = record.entry.header.step
    return newest


def _records(path: Path, start: int) -> Iterator[tuple[int, int, Record]]:
    """Where each record begins and ends, and the record. What is broken is passed over.

    Raises:
        StorageError: the file cannot be read, or is that of another version.
    """
    try:
        with path.open("rb") as file:
            after = file.seek(start)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # it is being written, or was when the power failed
                begin, after = after, after + len(line)
                if (record := value_of(line, Record, path)) is not None:
                    yield begin, after, record
    except FileNotFoundError:
        return
    except OSError as error:
        raise unreadable(path, error) from error


def _lost(path: Path, begin: int, end: int) -> None:
    what = "%s: bytes %d to %d are broken and were left out; other peers are asked for what was there. Check the disk"
    logger.warning(what, path, begin, end - 1)


def unreadable(path: Path, error: OSError) -> StorageError:
    """What to say of a file that cannot be read."""
    return StorageError(f"{path}: could not be read ({error.strerror}); make it readable or remove it")
