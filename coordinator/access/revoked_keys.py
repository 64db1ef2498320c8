"""Which personal keys are good no longer, as their holders have revoked them: kept on the disk.

Keys are stored nowhere, so what is kept is a time: those of a holder that were given before it are refused.
"""

import threading
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from coordinator.access.person_key import LIFETIME, PersonalKey
from coordinator.state_folder import REVOKED_KEYS, read_small
from swarm import clock
from swarm.files import write_file


class _Revocation(BaseModel):
    model_config = ConfigDict(strict=True)

    user: str
    peer_id: str | None
    good_from: float  # unix seconds


class _File(BaseModel):
    model_config = ConfigDict(strict=True)

    revoked: list[_Revocation]


class RevokedKeys:
    """Revocations in the state folder; each is on the disk before it is answered. Threads may share it."""

    def __init__(self, folder: Path):
        """Read those that are there.

        Raises:
            SwarmError: the file there holds none.
        """
        self._path, self._lock = folder / REVOKED_KEYS, threading.Lock()
        otherwise = "no revoked keys; restore the file, or remove it, so that all keys of the last 30 days are good"
        found = read_small(self._path, _File, otherwise)
        self._good_from = {(one.user, one.peer_id): one.good_from for one in found.revoked} if found else {}

    def good_from(self, user: str, peer_id: str | None) -> float:
        """Keys of this holder that were given before this time, in unix seconds, are good no longer."""
        return self._good_from.get((user, peer_id), 0.0)

    def includes(self, key: PersonalKey) -> bool:
        """Whether this key is good no longer."""
        return key.given < self.good_from(key.user, key.peer_id)

    def revoke(self, user: str, peer_id: str | None) -> None:
        """Refuse all keys that this holder has got so far.

        Raises:
            StorageError: the disk cannot be written; nothing has changed.
        """
        now = clock.now()
        with self._lock:
            good_from = {holder: time for holder, time in self._good_from.items() if time + LIFETIME > now}
            # keys are dated by the second, and one of now may have been given after an earlier revocation of now
            good_from[user, peer_id] = max(float(int(now)), self.good_from(user, peer_id)) + 1
            content = [_Revocation(user=name, peer_id=one, good_from=time) for (name, one), time in good_from.items()]
            write_file(self._path, _File(revoked=content).model_dump_json(indent=1) + "\n")
            self._good_from = good_from
