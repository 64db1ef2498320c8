"""Users who were given a pass since the start, with the URLs of their avatars."""

import threading
from collections import OrderedDict

MOST_USERS = 10_000


class RecentUsers:
    """Threads may share it. If there are too many users, the one whose pass is oldest is forgotten."""

    def __init__(self) -> None:
        self._avatars: OrderedDict[str, str | None] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, user: str, avatar: str | None) -> None:
        """Remember a user; the avatar is None where there is none."""
        with self._lock:
            self._avatars[user] = avatar
            self._avatars.move_to_end(user)
            if len(self._avatars) > MOST_USERS:
                self._avatars.popitem(last=False)

    def avatar(self, user: str) -> str | None:
        """The URL of a user's avatar, if it is known."""
        return self._avatars.get(user)

    def names(self) -> list[str]:
        """The names in their passes."""
        with self._lock:
            return list(self._avatars)
