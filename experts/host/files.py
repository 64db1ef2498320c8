"""States of experts in a folder: what a host serves and what it copies, a file for each."""

import threading
from collections.abc import Iterator
from pathlib import Path

from hivemind.utils import get_logger

from experts.grid import Uid, is_inside
from experts.host.settings import ExpertSettings
from experts.host.state import from_bytes, longest_state
from experts.host.trained_expert import TrainedExpert
from swarm.files import remove_partials, write_file

logger = get_logger(__name__)

SUFFIX = ".safetensors"


class StateFiles:
    """The files of one host, named by the coordinates of their experts, as `3.5.safetensors`.

    Any thread may call the methods. A file is never replaced by one of an older version.
    """

    def __init__(self, folder: Path, settings: ExpertSettings):
        self._folder, self._settings = folder, settings
        self._lock = threading.Lock()  # a state that is late does not overtake another one
        self._versions: dict[Uid, int] = {}

    @property
    def versions(self) -> dict[Uid, int]:
        """Those that can be read, with their versions."""
        return dict(self._versions)

    def load(self) -> None:
        """Find the files of an earlier process, and clear away those that it has not finished."""
        remove_partials(self._folder)
        for uid in self._named():
            self.read(uid)

    def write(self, uid: Uid, version: int, state: bytes) -> bool:
        """Replace an expert's file; whether that was done: not if the file has a newer version.

        Raises:
            StorageError: it cannot be written.
        """
        with self._lock:
            if version < self._versions.get(uid, 0):
                return False
            write_file(self._path(uid), state)
            self._versions[uid] = version
            return True

    def read(self, uid: Uid) -> TrainedExpert | None:
        """The expert as it was written last; None if it never was, or is damaged."""
        with self._lock:
            expert = self._read(uid)
            if expert is None:
                self._versions.pop(uid, None)
            else:
                self._versions[uid] = expert.version
            return expert

    def remove(self, uid: Uid) -> None:
        """Keep an expert's file no longer.

        Raises:
            OSError: it cannot be removed.
        """
        with self._lock:
            self._path(uid).unlink(missing_ok=True)
            self._versions.pop(uid, None)

    def _read(self, uid: Uid) -> TrainedExpert | None:
        try:
            path = self._path(uid)
            if path.stat().st_size > longest_state(self._settings):
                raise ValueError(f"longer than the {longest_state(self._settings):,} bytes of a state")
            return from_bytes(uid, self._settings, path.read_bytes())
        except FileNotFoundError:
            return None
        except (ValueError, OSError) as error:
            logger.warning(f"{self._path(uid)}: not used ({error})")
            return None

    def _named(self) -> Iterator[Uid]:
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            parts = path.name.removesuffix(SUFFIX).split(".")
            if all(part.isdecimal() for part in parts):
                uid = tuple(map(int, parts))
                if is_inside(uid, self._settings.grid) and self._path(uid) == path:
                    yield uid

    def _path(self, uid: Uid) -> Path:
        return self._folder / (".".join(map(str, uid)) + SUFFIX)
