"""Entries of the log in a file that only grows, each with its length and a checksum."""

import logging
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from pathlib import Path

import msgpack

from averaging.log.header import Ballot, Certificate, Entry, Farewell, Header
from swarm.durable import fsync, storage_errors, write_file
from swarm.errors import StorageError

logger = logging.getLogger(__name__)

_FRAME = struct.Struct("<II")  # bytes of what follows, and the CRC-32 of that number and of what follows


def framed(content: bytes) -> bytes:
    """Bytes that can be told from ones that were cut short or garbled."""
    length = len(content).to_bytes(4, "little")
    return _FRAME.pack(len(content), zlib.crc32(content, zlib.crc32(length))) + content


def unframed(frames: bytes) -> Iterator[bytes]:
    """The contents of whole frames, up to the first that is not."""
    at = 0
    while len(frames) - at >= _FRAME.size:
        length, _ = _FRAME.unpack_from(frames, at)
        content = frames[at + _FRAME.size : at + _FRAME.size + length]
        if framed(content) != frames[at : at + _FRAME.size + length]:
            return
        yield content
        at += _FRAME.size + length


def read_if_there(path: Path) -> bytes:
    """The content of a file; nothing if there is none.

    Raises:
        StorageError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise StorageError(f"{path}: could not be read ({error.strerror}); make it readable or remove it") from error


class LogFile:
    """One chain of entries, oldest first, which may begin in the middle of a run; or any entries, in any order."""

    def __init__(self, path: Path, *, is_chain: bool = True):
        self._path, self._is_chain = path, is_chain
        self._end = 0  # bytes of whole entries; what a failed write has left behind them does not count
        self.tip: Header | None = None

    def load(self) -> list[Entry]:
        """All entries. What follows the first broken one is cut off, with a line in the log of the program.

        Raises:
            StorageError: the file cannot be read.
        """
        content, entries = read_if_there(self._path), []
        self._end, self.tip = 0, None
        for frame in unframed(content):
            try:
                entry = _decode(frame)
            except ValueError:
                break
            if not self._may_follow(entry.header, self.tip):
                break
            entries.append(entry)
            self._end, self.tip = self._end + _FRAME.size + len(frame), entry.header
        if self._end < len(content):
            where = f"after step {self.tip.step}" if self.tip else "from its first step on"
            logger.warning("%s: %d bytes %s are broken and were left out", self._path, len(content) - self._end, where)
        return entries

    def go_on_after(self, entries: Sequence[Entry]) -> None:
        """Keep only these, the first ones of those that were loaded. The file is cut when it is written next."""
        self._end = sum(len(framed(_encode(entry))) for entry in entries)
        self.tip = entries[-1].header if entries else None

    def append(self, entries: Sequence[Entry]) -> None:
        """Add entries, and have them on the disk. A failure leaves those before them.

        Raises:
            StorageError: the disk is full or the file cannot be written.
        """
        if not entries:
            return
        for before, entry in zip((self.tip, *(one.header for one in entries)), entries, strict=False):
            assert self._may_follow(entry.header, before), "a gap in the log"
        frames = b"".join(framed(_encode(entry)) for entry in entries)
        with storage_errors(self._path):
            is_new = not self._path.exists()
            if is_new:
                self._path.touch(0o600)
            with self._path.open("r+b") as file:
                file.truncate(self._end)  # what a longer write has left must not follow a shorter one
                file.seek(self._end)
                file.write(frames)
            fsync(self._path)
            if is_new:
                fsync(self._path.parent)
        self._end, self.tip = self._end + len(frames), entries[-1].header

    def replace(self, entries: Sequence[Entry]) -> None:
        """Have these entries and no others.

        Raises:
            StorageError: the disk is full or the file cannot be written; the old entries are there.
        """
        frames = b"".join(framed(_encode(entry)) for entry in entries)
        write_file(self._path, frames, mode=0o600)
        self._end, self.tip = len(frames), entries[-1].header if entries else None

    def _may_follow(self, header: Header, before: Header | None) -> bool:
        if before is None or not self._is_chain:
            return True
        return (header.step, header.previous) == (before.step + 1, before.digest)


def _encode(entry: Entry) -> bytes:
    ballot, certificate = entry.certificate.ballot, entry.certificate
    left = [
        [one.session, one.instance, one.step, astuple(one.promised) if one.promised else None, one.signature]
        for one in certificate.goodbyes
    ]
    proof = [astuple(ballot), certificate.votes, left, certificate.signatures]
    return bytes(msgpack.packb([entry.header.encoded, *proof]))


def _decode(encoded: bytes) -> Entry:
    try:
        header, ballot, votes, left, signatures = msgpack.unpackb(encoded)
        goodbyes = tuple(
            Farewell(session, instance, step, Ballot(*promised) if promised else None, signature)
            for session, instance, step, promised, signature in left
        )
        certificate = Certificate(Ballot(*ballot), tuple(votes), goodbyes, tuple(signatures))
        return Entry(Header.decode(header), certificate)
    except (TypeError, msgpack.exceptions.UnpackException) as error:
        raise ValueError(f"no entry: {error}") from error
