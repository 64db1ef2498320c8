"""The id of a curve at a service: kept in the state folder, so that a restarted coordinator continues it."""

import secrets
from pathlib import Path

from swarm.files import write_file


def curve_id(path: Path) -> str:
    """The id in this file, which is made if it is not there.

    Raises:
        StorageError: the file cannot be written.
    """
    if not path.is_file():
        write_file(path, secrets.token_hex(4))
    return path.read_text(encoding="utf-8").strip()
