"""Which machines their persons have ordered to pause, on the page "My machines": kept on the disk.

An order belongs to a user and a peer id, and holds for a peer whose pass names both. So it cannot concern a machine of
somebody else, even of one who takes the same peer id or the same self-chosen name: see `PersonalKey`.
"""

import threading
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from coordinator.state_folder import PAUSES, read_small
from swarm.files import write_file


class _File(BaseModel):
    model_config = ConfigDict(strict=True)

    paused: dict[str, list[str]]  # peer ids, by user


class PauseOrders:
    """Orders in the state folder; each is on the disk before it takes effect. Threads may share it."""

    def __init__(self, folder: Path):
        """Read the orders that are there.

        Raises:
            SwarmError: the file there holds none.
        """
        self._path, self._lock = folder / PAUSES, threading.Lock()
        otherwise = "no orders to pause; restore the file, or remove it, so that all machines go on"
        found = read_small(self._path, _File, otherwise)
        self._paused = {user: frozenset(ids) for user, ids in found.paused.items()} if found else {}

    def is_paused(self, user: str, peer_id: str) -> bool:
        """Whether this machine of this user is to pause."""
        return peer_id in self.of(user)

    def of(self, user: str) -> frozenset[str]:
        """The machines of a user that are to pause, by peer id."""
        return self._paused.get(user, frozenset())

    def order(self, user: str, peer_ids: Iterable[str], *, paused: bool) -> None:
        """Have machines of a user pause, or go on.

        Raises:
            StorageError: the disk cannot be written; nothing has changed.
        """
        with self._lock:
            ordered = self.of(user).union(peer_ids) if paused else self.of(user).difference(peer_ids)
            if ordered == self.of(user):
                return
            orders = {name: ids for name, ids in {**self._paused, user: ordered}.items() if ids}
            written = _File(paused={name: sorted(ids) for name, ids in sorted(orders.items())})
            write_file(self._path, written.model_dump_json(indent=1) + "\n")
            self._paused = orders
