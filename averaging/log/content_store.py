"""What a peer holds by digest: chunks of updates and of snapshots, and manifests, in memory or in a folder."""

import hashlib
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager
from pathlib import Path

from swarm.errors import StorageError
from swarm.files import fsync, fsync_all, remove_partials, storage_errors, write_file

logger = logging.getLogger(__name__)

_DIGEST = re.compile(r"[0-9a-f]{64}")  # SHA-256; other names could lead out of the folder


class Store:
    """Contents by their SHA-256. Threads may share a store.

    In a folder each content is a file, and those used last are in memory too. What does not have the digest that it is
    named by, after a crash or on a bad disk, is dropped when the store is opened, and whenever it is read.

    Args:
        folder: for this store alone, made if it is missing; None: everything is in memory.
        memory_limit: bytes.

    Raises:
        StorageError: the folder cannot be read or written.
    """

    def __init__(self, folder: Path | None, memory_limit: int):
        self._folder, self._memory_limit = folder, memory_limit
        self._lock = threading.RLock()
        self._held: set[str] = set()
        self._memory: OrderedDict[str, bytes] = OrderedDict()  # the one used last is last
        self._in_memory = 0  # bytes
        self._unflushed: set[str] = set()
        if folder is not None:
            with storage_errors(folder):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                folder.chmod(0o700)
                remove_partials(folder)
                names = [path.name for path in folder.iterdir() if _DIGEST.fullmatch(path.name)]
            self._held.update(names)
            for digest in names:
                self._read(digest)  # and drop what is broken

    @property
    def digests(self) -> Set[str]:
        """Of all that is held."""
        return self._held

    def has(self, digest: str) -> bool:
        """Whether a content is held."""
        return digest in self._held

    def put(self, digest: str, content: bytes) -> None:
        """Hold a content, which the caller has checked. In a folder it survives a kill, and after `flush` a power cut.

        Raises:
            StorageError: there is no room for it.
        """
        with self._lock:
            if not _DIGEST.fullmatch(digest):
                raise ValueError(f"{digest!r} is not a SHA-256")
            if digest in self._held:
                return
            if self._folder is not None:
                write_file(self._folder / digest, content, mode=0o600, flush=False)
                self._unflushed.add(digest)
            elif self._in_memory + len(content) > self._memory_limit:
                raise StorageError(
                    f"the memory for updates and snapshots is full: {len(content):,} bytes more than "
                    f"{self._in_memory:,} are above the limit of {self._memory_limit:,}; give a folder for them, or a "
                    "higher limit"
                )
            self._held.add(digest)
            self._remember(digest, content)

    def get(self, digest: str) -> bytes | None:
        """A content, or None if it is not held."""
        with self._lock:
            if digest not in self._held:
                return None
            if digest in self._memory:
                self._memory.move_to_end(digest)
                return self._memory[digest]
            content = self._read(digest)
            if content is not None:
                self._remember(digest, content)
            return content

    def flush(self) -> None:
        """Have all contents on the disk.

        Raises:
            StorageError: the disk does not take them.
        """
        if self._folder is None:
            return
        with self._lock:
            digests = sorted(self._unflushed)
        with storage_errors(self._folder):
            if digests:  # without the lock: it takes long
                fsync_all(self._folder / digest for digest in digests)
                fsync(self._folder)
        with self._lock:
            self._unflushed.difference_update(digests)

    @contextmanager
    def all_or_none(self) -> Iterator[Callable[[str, bytes], None]]:
        """A `put` for contents that belong together: if one finds no room, those before it are not held either."""
        new = list[str]()

        def put(digest: str, content: bytes) -> None:
            if not self.has(digest):
                new.append(digest)
                self.put(digest, content)

        try:
            yield put
        except StorageError:
            self.forget(new)  # small files may find room now
            raise

    def forget(self, digests: Iterable[str]) -> None:
        """Hold these no longer."""
        with self._lock:
            for digest in digests:
                if digest not in self._held:
                    continue
                self._held.remove(digest)
                self._in_memory -= len(self._memory.pop(digest, b""))
                self._unflushed.discard(digest)
                if self._folder is not None:
                    with storage_errors(self._folder):
                        (self._folder / digest).unlink(missing_ok=True)

    def _read(self, digest: str) -> bytes | None:
        """From the folder; what is broken is dropped."""
        assert self._folder is not None
        path = self._folder / digest
        try:
            content = path.read_bytes()
            if hashlib.sha256(content).hexdigest() == digest:
                return content
            reason = "its content is another one"
        except OSError as error:
            reason = str(error.strerror)
        logger.warning("%s was dropped: %s", path, reason)
        self.forget([digest])
        return None

    def _remember(self, digest: str, content: bytes) -> None:
        self._memory[digest] = content
        self._in_memory += len(content)
        while self._in_memory > self._memory_limit:  # only where there are files, too
            _, oldest = self._memory.popitem(last=False)
            self._in_memory -= len(oldest)
