"""Hosts of their own for peers: network namespaces on one bridge, whose cables can be pulled.

What is sent to a host without its cable is lost in silence, as behind a firewall that drops everything.
"""

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.waiting import PATIENCE

NETWORK = "10.213.77"
LARGEST_PACKET = 4000  # bytes, some more than Ethernet's
CLONE_NEWNET = 0x40000000  # of <sched.h>


class NoHosts(Exception):
    """This machine cannot make them; the message says why."""


class Hosts:
    """Network namespaces by name. Make them with `made_hosts`."""

    def __init__(self, names: Sequence[str], tag: str):
        self._tag = tag
        self.addresses = {name: f"{NETWORK}.{number}" for number, name in enumerate(names, 2)}

    def namespace(self, name: str) -> str:
        """The file by which a process moves there."""
        return f"/run/netns/{self._netns(name)}"

    def pull_cable(self, name: str) -> None:
        """Nothing comes or goes any more."""
        _ip("link", "set", self._cable(name), "down")

    def pulling_cable(self, name: str) -> list[str]:
        """The same as a command, for a process on whatever host."""
        here = f"--net=/proc/{os.getpid()}/ns/net"
        return ["nsenter", here, "ip", "link", "set", self._cable(name), "down"]

    def plug_in(self, name: str) -> None:
        """Undo that."""
        _ip("link", "set", self._cable(name), "up")

    def limit(self, name: str, upload: float, download: float) -> None:
        """Let its cable carry so many Mbit/s; its TCP is that of most homes, whatever this machine has.

        Raises:
            NoHosts: it cannot be done here.
        """
        _limit(upload, "-n", self._netns(name), device="eth0")
        _limit(download, device=self._cable(name))
        netns, near = self._netns(name), f"{NETWORK}.0/24"
        _ip("-n", netns, "route", "replace", near, "dev", "eth0", "src", self.addresses[name], "congctl", "cubic")

    def make(self) -> None:
        """Raises `NoHosts` if it cannot be done here."""
        bridge = f"{self._tag}-br"
        _ip("link", "add", bridge, "type", "bridge")
        _ip("link", "set", bridge, "up")
        for name, address in self.addresses.items():
            netns, cable = self._netns(name), self._cable(name)
            _ip("netns", "add", netns)
            _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", netns)
            _ip("link", "set", cable, "master", bridge, "up")
            _ip("-n", netns, "link", "set", "lo", "up")
            _ip("-n", netns, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", netns, "link", "set", "eth0", "up")

    def remove(self) -> None:
        """Leave nothing behind; also of what was made halfway."""
        for name in self.addresses:
            with contextlib.suppress(NoHosts):
                _ip("link", "del", self._cable(name))
            with contextlib.suppress(NoHosts):
                _ip("netns", "del", self._netns(name))
        with contextlib.suppress(NoHosts):
            _ip("link", "del", f"{self._tag}-br")

    def _netns(self, name: str) -> str:
        return f"{self._tag}-{name}"

    def _cable(self, name: str) -> str:
        return f"{self._tag}-{list(self.addresses).index(name)}"  # names of links have 15 characters


@contextlib.contextmanager
def made_hosts(*names: str) -> Iterator[Hosts]:
    """Hosts that are there while the block runs.

    Raises:
        NoHosts: not root, not Linux, or no `ip` command.
    """
    hosts = Hosts(names, f"sj{os.getpid() % 100_000}")
    try:
        hosts.make()
        yield hosts
    finally:
        hosts.remove()


def move_to(namespace: str) -> None:
    """Move this process, which has one thread, to another host."""
    with Path(namespace).open("rb") as file:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot move to {namespace}")


def _limit(speed: float, *where: str, device: str) -> None:
    """What leaves by a device: Mbit/s, with the burst of 10 ms and the queue of 0.3 s that a router may have."""
    burst = max(LARGEST_PACKET, int(speed * 1e6 / 8 * 0.01))  # bytes
    shape = ["tbf", "rate", f"{speed}mbit", "burst", str(burst), "latency", "300ms"]
    _root("tc", *where, "qdisc", "add", "dev", device, "root", *shape)


def _ip(*arguments: str) -> None:
    _root("ip", *arguments)


def _root(name: str, *arguments: str) -> None:
    command = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if command is None or os.geteuid() != 0:
        raise NoHosts(f"hosts of their own need root and the `{name}` command")
    done = subprocess.run([command, *arguments], check=False, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        raise NoHosts(f"{name} {' '.join(arguments)}: {done.stderr.strip()}")
