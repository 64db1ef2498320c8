"""The folder of a peer: its log, its snapshots and the header that it accepted last, to be found again after a restart.

What a file names is on the disk before the file is.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from averaging.log.content_store import Store
from averaging.log.entry_file import EntryFile, Record, chain_of, line_of, missing_in, unreadable, value_of
from averaging.log.header import Ballot, Entry, Gap, Header, HeaderKind, SnapshotName
from averaging.log.snapshot import Manifest
from swarm.errors import StorageError
from swarm.files import storage_errors, write_file

logger = logging.getLogger(__name__)

T = TypeVar("T")

LOG_FILE = "log"
_NAMES_STATE = (HeaderKind.GENESIS, HeaderKind.ROLLBACK)  # the state after these is the snapshot that they name


@dataclass(frozen=True)
class Found:
    """A log that can be replayed: load the snapshot `base`, then apply `replay`. All that this needs is held."""

    entries: tuple[Entry, ...]  # oldest first
    snapshots: tuple[SnapshotName, ...]  # of this chain, oldest first
    base: SnapshotName  # one of them
    replay: tuple[Entry, ...]  # the last of the entries
    accepted: tuple[Ballot, Header, bytes] | None  # for the next step, with contacts; its chunks are held
    gaps: tuple[Gap, ...]  # older headers that are missing
    waited: float = 0.0  # seconds for which there was no quorum for the step after the last entry


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
        self._log = EntryFile(folder / LOG_FILE)
        self._gaps: tuple[Gap, ...] = ()
        self._snapshots, self._accepted, self._waited = folder / "snapshots", folder / "accepted", folder / "waited"

    def load(self) -> Found | None:
        """What is whole: where something is missing, the log ends before it. None if it leads to no state.

        Entries before the oldest snapshot are not read. Chunks that nothing of it names are deleted.
        """
        start, self._gaps, _ = self._saved()
        found = self._find(start) or (self._find(0) if start else None)
        if found is not None:
            self.contents.forget(self.contents.digests - self._named(found))
        return found

    def _find(self, first: int) -> Found | None:
        """In the log from a byte on.

        Where the disk has lost some of that, and what follows leads to no state, the log ends before it.
        """
        records, whole = self._log.load(first), self._log.whole
        chains = [chain_of(records)]
        if whole is not None:
            known = {gap.digest for gap in self._gaps}
            self._gaps += tuple(gap for gap in missing_in(self._folder / LOG_FILE) if gap.digest not in known)
            chains.append(chain_of(records[:whole]))
        found = next(filter(None, map(self._found, chains)), None)
        if found is None and not first and any(chains):  # without any there are headers for their credit alone
            raise StorageError(
                f"{self._folder}: no whole snapshot is left for the {max(map(len, chains)):,} entries of the log; "
                "bring the folder back from a copy, or move it away to begin without it"
            )
        return found

    def _found(self, entries: Sequence[Entry]) -> Found | None:
        """In a chain."""
        states = self._states(entries)
        start = max((at for at, name in enumerate(states) if name is not None), default=None)
        if start is None:
            return None
        end = next(
            (at for at in range(start + 1, len(entries)) if not self._can_apply(entries[at].header)), len(entries)
        )
        if end < len(entries):
            logger.warning("the log ends after step %d: the next update is missing", entries[end - 1].header.step)
        base = states[start]
        assert base is not None
        others = {name for name in states if name is not None and name != base}
        return Found(
            entries=tuple(entries[:end]),
            snapshots=(*sorted(others, key=lambda name: name.step), base),
            base=base,
            replay=tuple(entries[start + 1 : end]),
            accepted=self._load_accepted(entries[end - 1].header),
            gaps=self._gaps,
            waited=self._load_waited(entries[end - 1].header),
        )

    def _named(self, found: Found) -> set[str]:
        """What is still needed of the contents."""
        oldest = found.snapshots[0].step
        headers = [entry.header for entry in found.entries if entry.header.step > oldest]
        if found.accepted is not None:
            headers.append(found.accepted[1])
        digests = {digest for header in headers for digest in header.needed}
        targets = [one.snapshot for one in headers if one.kind is HeaderKind.ROLLBACK and one.snapshot is not None]
        for name in (*found.snapshots, *targets):
            manifest = self._manifest(name)
            if manifest is not None:
                digests.update((name.digest, *manifest.chunks))
        return digests

    def save_proposal(self, ballot: Ballot, header: Header, contacts: bytes = b"") -> None:
        """Write down what this peer accepts, in place of what it accepted before; the chunks are in `contents`.

        Args:
            contacts: of the sessions to which the header gives power, for peers that do not know them.
        """
        self.contents.flush()
        write_file(self._accepted, line_of((ballot, header, contacts)), mode=0o600)

    def save_waited(self, instance: str, seconds: float) -> None:
        """Write the seconds without a quorum for the step after a header; no rule of safety reads it."""
        write_file(self._waited, line_of((instance, seconds)), mode=0o600)

    def take_over(self, entries: Sequence[Entry], snapshot: SnapshotName, gaps: tuple[Gap, ...]) -> None:
        """Go on from a snapshot that was loaded: it is the state after the last of these headers.

        The entries before keep their credit; they may be of a chain that has lost.
        """
        start, _, names = self._saved()
        self._gaps = gaps
        self._save_snapshots(start, [*names, snapshot])  # the old ones, too: a crash may come before the next line
        first = self._log.append([Record(one, is_applied=one is entries[-1]) for one in entries])
        self._save_snapshots(first, [snapshot])

    def save_snapshots(self, names: Sequence[SnapshotName], since: int) -> None:
        """Write down which snapshots there are; manifests and chunks are in `contents`.

        Args:
            since: the oldest step of which a restart needs the header.
        """
        self._save_snapshots(self._log.since(since), names)

    def _save_snapshots(self, start: int, names: Sequence[SnapshotName]) -> None:
        self.contents.flush()
        write_file(self._snapshots, line_of((start, self._gaps, names)), mode=0o600)

    def append(self, entries: Sequence[Entry]) -> None:
        """Write down entries that were applied."""
        self.contents.flush()
        self._log.append([Record(entry, is_applied=True) for entry in entries])

    def credit(self, entries: Sequence[Entry], gaps: tuple[Gap, ...] | None = None) -> None:
        """Write down headers for their credit, in any order, and again if need be; `gaps` are missing from now on."""
        self._log.append([Record(one, is_applied=False, is_proven=False) for one in entries])
        if gaps is not None:
            self._gaps = gaps
            start, _, names = self._saved()
            self._save_snapshots(start, names)

    def _states(self, entries: Sequence[Entry]) -> list[SnapshotName | None]:
        """For each entry the snapshot that is held of the state after it."""
        after = {}  # by digest of header
        for name in self._saved()[2]:
            manifest = self._manifest(name)
            if manifest is not None:
                after[manifest.header] = manifest.name
        headers = [entry.header for entry in entries]
        return [
            header.snapshot if header.kind in _NAMES_STATE and self._can_apply(header) else after.get(header.digest)
            for header in headers
        ]

    def _saved(self) -> tuple[int, tuple[Gap, ...], tuple[SnapshotName, ...]]:
        """From which byte on the log is needed, the gaps in what is before, and which snapshots there are."""
        return _content(self._snapshots, tuple[int, tuple[Gap, ...], tuple[SnapshotName, ...]]) or (0, (), ())

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

    def _load_accepted(self, tip: Header) -> tuple[Ballot, Header, bytes] | None:
        accepted = _content(self._accepted, tuple[Ballot, Header, bytes])
        if accepted is None:
            return None
        _, header, _ = accepted
        is_next = header.previous == tip.digest and self._can_apply(header)
        return accepted if is_next else None

    def _load_waited(self, tip: Header) -> float:
        instance, seconds = _content(self._waited, tuple[str, float]) or ("", 0.0)
        return seconds if instance == tip.digest else 0.0


def _content(path: Path, kind: type[T]) -> T | None:
    """The value in a file of one line; None if there is no file, or it is broken.

    Raises:
        StorageError: it cannot be read, or is that of another version.
    """
    try:
        line = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from error
    content = value_of(line, kind, path)
    if content is None:
        logger.warning("%s is broken and was left out", path)
    return cast(T | None, content)


class Journal:
    """Writes to a disk that may be full: each is done after those before it, since it builds on them.

    Not for several threads at a time. Without a disk there is nothing to do.
    """

    def __init__(self, disk: Disk | None):
        self._disk = disk
        self._waiting: deque[Callable[[Disk], None]] = deque()  # that failed, and what came after

    @property
    def is_behind(self) -> bool:
        """Whether something is not on the disk yet, so that the disk needs what nothing else does any more."""
        return bool(self._waiting)

    def write(self, work: Callable[[Disk], None]) -> None:
        """Do it, after all that has failed before.

        Raises:
            StorageError: the disk takes nothing now; `catch_up` tries again, and so does the next write.
        """
        if self._disk is not None:
            self._waiting.append(work)
            self.catch_up()

    def catch_up(self) -> None:
        """Do what has failed.

        Raises:
            StorageError: it fails again.
        """
        while self._waiting:
            assert self._disk is not None
            self._waiting[0](self._disk)
            self._waiting.popleft()
