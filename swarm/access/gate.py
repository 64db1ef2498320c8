"""The gate of a peer: its own pass, and the check of the passes of others.

A peer is two processes: its DHT node is forked from it. Both read the same two small files, and use a renewed pass or a
new ban from their next call on.
"""

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from hivemind.p2p import PeerID

from swarm import clock
from swarm.access.notices import Notices, read_notices
from swarm.access.passes import Pass, PassRefused, check_pass, read_pass
from swarm.files import write_file

T = TypeVar("T")
PASS = "pass"  # the file
SHUT_AFTER = 600.0  # seconds after the last sign that passes can be renewed, in which they still expire
SHUT_FRACTION = 0.25  # of a pass's lifetime, where that is less: passes are renewed when half of it is left


class Gate:
    """Holds the pass that this peer shows, and checks those of others.

    Args:
        folder: of this peer; the files `pass` and `notices` in it are shared by its processes.
        lifetime: seconds that the passes of the run's trainers last; absent: as long as our own, which is new.
    """

    def __init__(
        self, folder: Path, run_name: str, authority: bytes, own: Pass, notices: bytes, lifetime: float | None = None
    ):
        self.run_name, self.authority = run_name, authority
        lifetime = max(0.0, own.expires - clock.now()) if lifetime is None else lifetime
        self._shut_after = min(SHUT_AFTER, SHUT_FRACTION * lifetime)
        self._taking = threading.Lock()  # notices reach several threads
        self._pass = _SharedFile(folder / PASS, read_pass)
        self._notices = _SharedFile(folder / "notices", lambda signed: read_notices(signed, authority, run_name))
        self.renew(own)
        self.take_notice(notices)

    @property
    def own(self) -> Pass:
        """This peer's newest pass."""
        newest = self._pass.read()
        assert newest is not None, "written by __init__"
        return newest

    def renew(self, own: Pass) -> None:
        """Show this pass from now on, in all processes of the peer."""
        write_file(self._pass.path, own.to_bytes())

    @property
    def notices(self) -> Notices:
        """The newest notices that have reached this peer."""
        return self._notices.read() or Notices()

    def take_notice(self, signed: bytes) -> None:
        """Use these notices from now on, in all processes of the peer, if they are the authority's and newer."""
        newer = read_notices(signed, self.authority, self.run_name)
        with self._taking:
            if newer.time > self.notices.time:
                write_file(self._notices.path, signed)

    def admit(self, peer_id: PeerID, shown: bytes | Pass) -> Pass:
        """The pass of a peer that calls or answers us, checked.

        While no pass can be renewed, because the coordinator is away or takes no calls, passes do not expire.

        Raises:
            PassRefused: with the reason.
        """
        its = shown if isinstance(shown, Pass) else read_pass(shown)
        notices = self.notices
        check_pass(its, self.authority, self.run_name, peer_id, min(clock.now(), notices.pass_time + self._shut_after))
        if notices.bans(its.user, str(peer_id)):
            raise PassRefused(f"{its.user} is banned from this run")
        return its


class _SharedFile(Generic[T]):
    """A small file that another process may replace; read again only when it was."""

    def __init__(self, path: Path, parse: Callable[[bytes], T]):
        self.path, self._parse = path, parse
        self._state: tuple[int, int] | None = None
        self._content: T | None = None

    def read(self) -> T | None:
        """The content, or None while there is no usable one."""
        with contextlib.suppress(OSError, PassRefused):
            found = self.path.stat()
            state = (found.st_ino, found.st_mtime_ns)
            if state != self._state:
                self._content, self._state = self._parse(self.path.read_bytes()), state
        return self._content
