"""The admin key: a bearer token in the state folder with which the organizer gives orders to a running coordinator."""

import re
import secrets
from pathlib import Path

from swarm.errors import SwarmError
from swarm.files import write_file

KEY = re.compile(r"[0-9a-f]{64}")  # 32 bytes


def load_admin_key(path: Path) -> str:
    """Read the key file, or make a new one, that only its owner may read.

    Raises:
        SwarmError: the file cannot be read or holds no such key, or others may read it.
        StorageError: it cannot be written.
    """
    if not path.exists():
        write_file(path, secrets.token_hex(32) + "\n", mode=0o600)
    try:
        key = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        raise SwarmError(f"{path}: no readable admin key; mend its permissions, or remove it for a new one") from None
    if KEY.fullmatch(key) is None:
        raise SwarmError(f"{path}: not an admin key; remove it and start the coordinator again to get a new one")
    try:
        path.chmod(0o600)
    except OSError as error:
        raise SwarmError(f"{path}: others may read the admin key ({error.strerror}); chmod 600 it") from None
    return key
