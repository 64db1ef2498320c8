"""What a peer finds again after a restart: its log, its snapshots, and the header that it accepted last.

What a file names is on the disk before the file is.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack

from averaging.log.header import Ballot, Entry, Header, Kind, SnapshotName
from averaging.log.log_file import LogFile, framed, read_if_there, unframed
from averaging.log.snapshot import Manifest
from averaging.log.store import Store
from swarm.durable import storage_errors, write_file
from swarm.errors import StorageError

logger = logging.getLogger(__name__)

LOG_FILE = "log"
_NAMES_STATE = (Kind.GENESIS, Kind.ROLLBACK)  # the state after these is the snapshot that they name


@dataclass(frozen=True)
class Found:
    """A log that can be replayed: load the snapshot `base`, then apply `replay`. All that this needs is held."""

    entries: tuple[Entry, ...]  # oldest first
    snapshots: tuple[SnapshotName, ...]  # of this chain, oldest first
    base: SnapshotName  # one of them
    replay: tuple[Entry, ...]  # the last of the entries
    accepted: tuple[Ballot, Header] | None  # for the step after the last entry; its chunks are held
    others: tuple[Entry, ...]  # older headers, before a gap or of chains that have lost; for their credit


class Disk:
    """A folder for this alone, made if it is missing. The peer's identity is locked: no other process writes here.

    Args:
        memory_limit: bytes of contents that are in memory, too.

    Raises:
        StorageError: the folder cannot be read, or cannot be written. So do all methods.
    """

    def __init__(self, folder: Path, memory_limit: int):
        with storage_errors(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
        self._folder = folder
        self.contents = Store(folder / "contents", memory_limit)
        self._log = LogFile(folder / LOG_FILE)
        self._older = LogFile(folder / "older", is_chain=False)
        self._snapshots, self._accepted = folder / "snapshots", folder / "accepted"

    def load(self) -> Found | None:
        """What is whole: where something is missing, the log ends before it. None if it leads to no state.

        Chunks that nothing of it names are deleted.
        """
        found = self._find()
        if found is not None:
            self.contents.forget(self.contents.digests - self._named(found))
        return found

    def _find(self) -> Found | None:
        log, older = self._log.load(), {entry.header.digest: entry for entry in self._older.load()}
        before = []  # the oldest entry of the log, in the order of the chain
        digest = log[0].header.previous if log else ""
        while digest in older:
            before.append(older.pop(digest))
            digest = before[-1].header.previous
        entries = [*reversed(before), *log]
        for entry in log:
            older.pop(entry.header.digest, None)
        states = self._states(entries)
        start = max((at for at, name in enumerate(states) if name is not None), default=None)
        if start is None:
            if entries or older:
                count = len(entries) + len(older)
                raise StorageError(
                    f"{self._folder}: no whole snapshot is left for the {count:,} entries of the log; bring the "
                    "folder back from a copy, or move it away to begin without it"
                )
            self._log.go_on_after([])
            return None
        end = next(
            (at for at in range(start + 1, len(entries)) if not self._can_apply(entries[at].header)), len(entries)
        )
        if end < len(entries):
            logger.warning("the log ends after step %d: the next update is missing", entries[end - 1].header.step)
            self._log.go_on_after(entries[len(before) : end])
        base = states[start]
        assert base is not None
        others = {name for name in states if name is not None and name != base}
        return Found(
            entries=tuple(entries[:end]),
            snapshots=(*sorted(others, key=lambda name: name.step), base),
            base=base,
            replay=tuple(entries[start + 1 : end]),
            accepted=self._load_accepted(entries[end - 1].header),
            others=tuple(sorted(older.values(), key=lambda entry: entry.header.step)),
        )

    def _named(self, found: Found) -> set[str]:
        """What is still needed of the contents."""
        oldest = found.snapshots[0].step
        headers = [entry.header for entry in found.entries if entry.header.step > oldest]
        if found.accepted is not None:
            headers.append(found.accepted[1])
        digests = {digest for header in headers for digest in header.needed}
        targets = [one.snapshot for one in headers if one.kind is Kind.ROLLBACK and one.snapshot is not None]
        for name in (*found.snapshots, *targets):
            manifest = self._manifest(name)
            if manifest is not None:
                digests.update((name.digest, *manifest.chunks))
        return digests

    def save_proposal(self, ballot: Ballot, header: Header) -> None:
        """Write down what this peer accepts, in place of what it accepted before; the chunks are in `contents`."""
        self.contents.flush()
        encoded = msgpack.packb([ballot.number, ballot.convener, header.encoded])
        write_file(self._accepted, framed(encoded), mode=0o600)

    def take_over(self, entry: Entry, snapshot: SnapshotName) -> None:
        """Go on from a snapshot that was loaded, with the header that it is the state after.

        The entries before it keep their credit; they may be of a chain that has lost.
        """
        self.add_older(self._log.load())
        self.save_snapshots([*self._names(), snapshot])  # the old ones, too: a crash may come before the next line
        self.replace([entry])
        self.save_snapshots([snapshot])

    def save_snapshots(self, names: Sequence[SnapshotName]) -> None:
        """Write down which snapshots there are; manifests and chunks are in `contents`."""
        self.contents.flush()
        encoded = msgpack.packb([[one.step, one.digest] for one in names])
        write_file(self._snapshots, framed(encoded), mode=0o600)

    def append(self, entries: Sequence[Entry]) -> None:
        """Write down entries that were applied."""
        self.contents.flush()
        self._log.append(entries)

    def add_older(self, entries: Sequence[Entry]) -> None:
        """Write down headers for their credit, in any order, and again if need be."""
        self._older.append(entries)

    def replace(self, entries: Sequence[Entry]) -> None:
        """Write down another log in place of this one: a snapshot was loaded."""
        self.contents.flush()
        self._log.replace(entries)

    def _states(self, entries: Sequence[Entry]) -> list[SnapshotName | None]:
        """For each entry the snapshot that is held of the state after it."""
        after = {}  # by digest of header
        for name in self._names():
            manifest = self._manifest(name)
            if manifest is not None:
                after[manifest.header] = manifest.name
        headers = [entry.header for entry in entries]
        return [
            header.snapshot if header.kind in _NAMES_STATE and self._can_apply(header) else after.get(header.digest)
            for header in headers
        ]

    def _names(self) -> list[SnapshotName]:
        return [SnapshotName(step, digest) for step, digest in _content(self._snapshots) or []]

    def _can_apply(self, header: Header) -> bool:
        """Whether all is held that a header leads to a state with."""
        if header.kind in _NAMES_STATE:
            return header.snapshot is not None and self._manifest(header.snapshot) is not None
        return all(self.contents.has(digest) for digest in header.chunks)

    def _manifest(self, name: SnapshotName) -> Manifest | None:
        """Of a snapshot all of whose chunks are held."""
        encoded = self.contents.get(name.digest)
        if encoded is None:
            return None
        try:
            manifest = Manifest.decode(encoded)
        except ValueError:
            return None
        # a rollback names an older snapshot by a step of its own
        is_whole = manifest.digest == name.digest and all(self.contents.has(digest) for digest in manifest.chunks)
        return manifest if is_whole else None

    def _load_accepted(self, tip: Header) -> tuple[Ballot, Header] | None:
        content = _content(self._accepted)
        if content is None:
            return None
        number, convener, encoded = content
        header = Header.decode(encoded)
        is_next = header.previous == tip.digest and self._can_apply(header)
        return (Ballot(number, convener), header) if is_next else None


def _content(path: Path) -> list[Any] | None:
    """The list in a file of one frame; None if there is no file, or it is broken."""
    frames = read_if_there(path)
    for content in unframed(frames):
        values: list[Any] = msgpack.unpackb(content)
        return values
    if frames:
        logger.warning("%s is broken and was left out", path)
    return None
