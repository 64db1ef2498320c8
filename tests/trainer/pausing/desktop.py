"""A stand-in for a Linux desktop: a message bus of its own, on which logind, NetworkManager and GNOME answer."""

import contextlib
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jeepney import HeaderFields, MessageType, message_bus, new_error, new_method_return
from jeepney.io.blocking import open_dbus_connection
from jeepney.wrappers import unwrap_msg

DAEMON = shutil.which("dbus-daemon")
NAMES = ("org.freedesktop.login1", "org.freedesktop.NetworkManager")
GNOME = "org.gnome.Mutter.IdleMonitor"
SESSION = "/org/freedesktop/login1/session/_31"
needs_bus = pytest.mark.skipif(DAEMON is None, reason="there is no dbus-daemon")


@dataclass
class Desktop:
    """What it would answer; change it at will."""

    address: str
    idle_milliseconds: int = 0  # as GNOME says
    metered: int = 4  # "probably not"
    sessions: dict[str, dict[str, tuple[str, Any]] | None] = field(default_factory=dict)  # of logind, by path

    def log_in(self, path: str = SESSION, **changes: Any) -> None:
        """Somebody has a graphical session."""
        kinds = {"Type": "s", "Class": "s", "State": "s", "User": "(uo)", "LockedHint": "b"}
        kinds |= {"IdleHint": "b", "IdleSinceHint": "t"}
        usual: dict[str, Any] = {"Type": "wayland", "Class": "user", "State": "active", "User": (os.getuid(), "/user")}
        usual |= {"LockedHint": False, "IdleHint": False, "IdleSinceHint": 0}
        self.sessions[path] = {name: (kinds[name], value) for name, value in (usual | changes).items()}

    def answer(self, interface: str, method: str, path: str) -> tuple[str, tuple[Any, ...]] | None:
        """Signature and body."""
        if method == "ListSessions":
            return "a(susso)", ([(str(n), 1000, "asha", "seat0", one) for n, one in enumerate(self.sessions)],)
        if method == "GetIdletime":
            return "t", (self.idle_milliseconds,)
        if method == "GetAll" and (session := self.sessions.get(path)) is not None:
            return "a{sv}", (session,)
        if method == "GetAll" and path.endswith("NetworkManager"):
            return "a{sv}", ({"Metered": ("u", self.metered)},)
        return None


@contextlib.contextmanager
def running_desktop(folder: Path, *, has_gnome: bool) -> Iterator[Desktop]:
    """The stand-in, until the block ends."""
    address = f"unix:path={folder}/bus"
    command = (str(DAEMON), "--session", "--nofork", f"--address={address}", "--print-address")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:
        try:
            assert daemon.stdout is not None
            assert daemon.stdout.readline(), "it says where it listens, once it does"
            desktop = Desktop(address)
            with open_dbus_connection(address) as connection:
                for name in (*NAMES, *([GNOME] if has_gnome else [])):
                    assert unwrap_msg(connection.send_and_get_reply(message_bus.RequestName(name))) == (1,)
                thread = threading.Thread(target=_serve, args=(connection, desktop), daemon=True)
                thread.start()
                yield desktop
                daemon.kill()
                thread.join()
        finally:
            daemon.kill()


def _serve(connection: Any, desktop: Desktop) -> None:
    while True:
        try:
            asked = connection.receive()
        except (OSError, EOFError):  # the bus is gone
            return
        if asked.header.message_type is not MessageType.method_call:
            continue
        fields = asked.header.fields
        found = desktop.answer(fields[HeaderFields.interface], fields[HeaderFields.member], fields[HeaderFields.path])
        connection.send(new_error(asked, "org.example.No") if found is None else new_method_return(asked, *found))
