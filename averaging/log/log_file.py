"""Entries of the log in a file that only grows, each with its length and a checksum.

A coordinator writes down every header once it knows of it, of whatever chain: the headers that it has applied, and
others for their credit. The chain is found by going back from the newest one that was applied.
"""

import io
import itertools
import logging
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import BinaryIO

import msgpack

from averaging.log.header import Ballot, Certificate, Entry, Farewell, Gap, Header
from swarm.durable import fsync, storage_errors
from swarm.errors import StorageError

logger = logging.getLogger(__name__)

_FRAME = struct.Struct("<II")  # bytes of what follows, and the CRC-32 of that number and of what follows


@dataclass(frozen=True)
class Record:
    """What the file has of an entry."""

    entry: Entry
    is_applied: bool  # the state is that after this header
    gaps: tuple[Gap, ...] | None = None  # headers that are missing from now on; None: the same as before


@dataclass(frozen=True)
class Place:
    """In the file: before it are the entries up to one with this digest."""

    start: int  # of the frame of that entry, in bytes
    digest: str


def framed(content: bytes) -> bytes:
    """Bytes that can be told from ones that were cut short or garbled."""
    length = len(content).to_bytes(4, "little")
    return _FRAME.pack(len(content), zlib.crc32(content, zlib.crc32(length))) + content


def unframed(file: BinaryIO) -> Iterator[bytes]:
    """The contents of whole frames from where the file is, up to the first that is not."""
    here = file.tell()
    size = file.seek(0, io.SEEK_END)
    file.seek(here)
    while len(head := file.read(_FRAME.size)) == _FRAME.size:
        length, _ = _FRAME.unpack(head)
        content = file.read(length) if length <= size - file.tell() else b""  # garbage may be any number
        if framed(content) != head + content:
            return
        yield content


class LogFile:
    """All entries that a peer has learned of, in that order."""

    def __init__(self, path: Path):
        self._path = path
        self.end = 0  # bytes of whole entries; what a failed write has left behind them does not count
        self._starts: list[tuple[int, int]] = []  # step and first byte of the newest entries

    def load(self, start: int = 0) -> list[Record]:
        """The records from a byte on. What follows the first broken one is cut off when the file is written next.

        Raises:
            StorageError: the file cannot be read.
        """
        self.end, self._starts, records = start, [], []
        for at, end, record in _records(self._path, start):
            records.append(record)
            self._starts.append((record.entry.header.step, at))
            self.end = end
        size = self._path.stat().st_size if self._path.exists() else 0
        if self.end < size and (records or not start):
            where = f"after step {records[-1].entry.header.step}" if records else "from the first step on"
            logger.warning("%s: %d bytes %s are broken and were left out", self._path, size - self.end, where)
        return records

    def since(self, step: int, start: int = 0) -> int:
        """The byte from which on the file has the entries of this step and later ones, of those after another byte.

        Earlier ones are not looked for again.
        """
        dropped = itertools.takewhile(lambda one: one[0] < step or one[1] < start, self._starts)
        self._starts = self._starts[sum(1 for _ in dropped) :]
        return self._starts[0][1] if self._starts else self.end

    def append(self, records: Sequence[Record]) -> None:
        """Add records, and have them on the disk. A failure leaves those before them.

        Raises:
            StorageError: the disk is full or the file cannot be written.
        """
        if not records:
            return
        frames = [framed(_encode(record)) for record in records]
        with storage_errors(self._path):
            is_new = not self._path.exists()
            if is_new:
                self._path.touch(0o600)
            with self._path.open("r+b") as file:
                file.truncate(self.end)  # what a longer write has left must not follow a shorter one
                file.seek(self.end)
                file.write(b"".join(frames))
            fsync(self._path)
            if is_new:
                fsync(self._path.parent)
        for record, frame in zip(records, frames, strict=True):
            self._starts.append((record.entry.header.step, self.end))
            self.end += len(frame)


def chain_of(records: Sequence[Record]) -> list[Entry]:
    """The entries up to the newest one that was applied, as far back as they are there."""
    known = {record.entry.header.digest: record.entry for record in records}
    digest = next((one.entry.header.digest for one in reversed(records) if one.is_applied), "")
    found: list[Entry] = []
    while digest in known:
        found.append(known[digest])
        digest = found[-1].header.previous
    return found[::-1]


def entries_after(path: Path, place: Place | None, most: int) -> tuple[list[Entry], Place | None]:
    """The next entries of the file, and the place after them. Another thread may write the file meanwhile.

    They are those after `place`; the first ones of the file where it has no such place, since it is another file.

    Raises:
        StorageError: the file cannot be read.
    """
    records = _records(path, 0 if place is None else place.start)
    if place is not None:
        _, _, first = next(records, (0, 0, None))
        if first is None or first.entry.header.digest != place.digest:
            return entries_after(path, None, most)
    entries: list[Entry] = []
    for start, _, record in records:
        if len(entries) == most:
            break
        entries.append(record.entry)
        place = Place(start, record.entry.header.digest)
    return entries, place


def newest_step(path: Path) -> int | None:
    """The step of the header that was applied last.

    Raises:
        StorageError: the file cannot be read.
    """
    newest = None
    for _, _, record in _records(path, 0):
        if record.is_applied:
            newest = record.entry.header.step
    return newest


def _records(path: Path, start: int) -> Iterator[tuple[int, int, Record]]:
    """Where each record begins and ends, and the record."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            for frame in unframed(file):
                end = start + _FRAME.size + len(frame)
                yield start, end, _decode(frame)
                start = end
    except FileNotFoundError:
        return
    except ValueError:
        return  # a whole frame that is no record
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> StorageError:
    """What to say of a file that cannot be read."""
    return StorageError(f"{path}: could not be read ({error.strerror}); make it readable or remove it")


def _encode(record: Record) -> bytes:
    certificate = record.entry.certificate
    left = [
        [one.session, one.instance, one.step, astuple(one.promised) if one.promised else None, one.signature]
        for one in certificate.goodbyes
    ]
    proof = [astuple(certificate.ballot), certificate.votes, left, certificate.signatures]
    gaps = None if record.gaps is None else [astuple(gap) for gap in record.gaps]
    return bytes(msgpack.packb([record.entry.header.encoded, *proof, record.is_applied, gaps]))


def _decode(encoded: bytes) -> Record:
    try:
        header, ballot, votes, left, signatures, is_applied, gaps = msgpack.unpackb(encoded)
        goodbyes = tuple(
            Farewell(session, instance, step, Ballot(*promised) if promised else None, signature)
            for session, instance, step, promised, signature in left
        )
        certificate = Certificate(Ballot(*ballot), tuple(votes), goodbyes, tuple(signatures))
        missing = None if gaps is None else tuple(Gap(*gap) for gap in gaps)
        return Record(Entry(Header.decode(header), certificate), is_applied, missing)
    except (TypeError, msgpack.exceptions.UnpackException) as error:
        raise ValueError(f"no entry: {error}") from error
