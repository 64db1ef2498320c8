"""States of experts in a folder: what a host serves and what it copies, a file for each."""

from collections.abc import Iterator
from pathlib import Path

from hivemind.utils import get_logger

from experts.grid import Uid, is_inside
from experts.host.settings import ExpertSettings
from experts.host.state import from_bytes, longest_state
from experts.host.trained_expert import TrainedExpert
from swarm.files import write_file

logger = get_logger(__name__)

SUFFIX = ".safetensors"


class StateFiles:
    """The files of one host, named by the coordinates of their experts, as `3.5.safetensors`."""

    def __init__(self, folder: Path, settings: ExpertSettings):
        self._folder, self._settings = folder, settings

    def write(self, uid: Uid, state: bytes) -> None:
        """Replace an expert's file.

        Raises:
            StorageError: it cannot be written.
        """
        write_file(self._path(uid), state)

    def read(self, uid: Uid) -> TrainedExpert | None:
        """The expert as it was written last; None if it never was, or is damaged."""
        try:
            path = self._path(uid)
            if path.stat().st_size > longest_state(self._settings):
                raise ValueError("too long")
            return from_bytes(uid, self._settings, path.read_bytes())
        except FileNotFoundError:
            return None
        except (ValueError, OSError) as error:
            logger.warning(f"{self._path(uid)}: not used ({error})")
            return None

    def versions(self) -> dict[Uid, int]:
        """Those that can be read, with their versions."""
        experts = {uid: self.read(uid) for uid in self._named()}
        return {uid: expert.version for uid, expert in experts.items() if expert is not None}

    def _named(self) -> Iterator[Uid]:
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            parts = path.name.removesuffix(SUFFIX).split(".")
            if all(part.isdecimal() for part in parts):
                uid = tuple(map(int, parts))
                if is_inside(uid, self._settings.grid) and self._path(uid) == path:
                    yield uid

    def _path(self, uid: Uid) -> Path:
        return self._folder / (".".join(map(str, uid)) + SUFFIX)
