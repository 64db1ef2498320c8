"""Hosts of their own for peers: network namespaces on one bridge, whose cables can be pulled, some behind routers.

What is sent to a host without its cable is lost in silence, as behind a firewall that drops everything.
"""

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tests.support.routers import Nat, rules
from tests.support.waiting import PATIENCE

NETWORK = "10.213.77"
OUTSIDE = "45.213.77"  # where some are behind routers: libp2p prefers QUIC to TCP by more in public networks
LARGEST_PACKET = 4000  # bytes, some more than Ethernet's
NO_ROUTERS: Mapping[str, Nat] = MappingProxyType({})
CLONE_NEWNET = 0x40000000  # of <sched.h>


class NoHosts(Exception):
    """This machine cannot make them; the message says why."""


class Hosts:
    """Network namespaces by name. Make them with `made_hosts`.

    The address of a host behind a router is the router's; its own is one of a network at home.
    """

    def __init__(self, names: Sequence[str], tag: str, routers: Mapping[str, Nat] = NO_ROUTERS):
        self._tag, self._routers, self._network = tag, routers, OUTSIDE if routers else NETWORK
        self.addresses = {name: f"{self._network}.{number}" for number, name in enumerate(names, 2)}

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
        way = ["default", "via", self._home(name, 1)]
        if name not in self._routers:
            way = [f"{self._network}.0/24", "src", self.addresses[name]]
        _ip("-n", self._netns(name), "route", "replace", *way, "dev", "eth0", "congctl", "cubic")

    def make(self) -> None:
        """Raises `NoHosts` if it cannot be done here."""
        bridge = f"{self._tag}-br"
        _ip("link", "add", bridge, "type", "bridge")
        _ip("link", "set", bridge, "up")
        for name in self.addresses:
            if name in self._routers:
                self._plug_in(self._router(name), name)
                self._move_in(name)
            else:
                self._plug_in(self._netns(name), name)

    def _plug_in(self, netns: str, name: str) -> None:
        """A namespace with the address and the cable of a host."""
        cable = self._cable(name)
        _add(netns)
        _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", netns)
        _ip("link", "set", cable, "master", f"{self._tag}-br", "up")
        _use(netns, "eth0", f"{self.addresses[name]}/24")

    def _move_in(self, name: str) -> None:
        """The host behind the router that is there."""
        netns, router = self._netns(name), self._router(name)
        _add(netns)
        _ip("-n", netns, "link", "add", "eth0", "type", "veth", "peer", "name", "home", "netns", router)
        _use(router, "home", f"{self._home(name, 1)}/24")
        _use(netns, "eth0", f"{self._home(name, 2)}/24")
        _ip("-n", netns, "route", "add", "default", "via", self._home(name, 1), "dev", "eth0")
        _ip("netns", "exec", router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for rule in rules(self._routers[name], self._home(name, 2)):
            _ip("netns", "exec", router, "iptables", "-w", *rule.split())

    def remove(self) -> None:
        """Leave nothing behind; also of what was made halfway."""
        for name in self.addresses:
            with contextlib.suppress(NoHosts):
                _ip("link", "del", self._cable(name))
            for netns in (self._netns(name), self._router(name)):
                with contextlib.suppress(NoHosts):
                    _ip("netns", "del", netns)
        with contextlib.suppress(NoHosts):
            _ip("link", "del", f"{self._tag}-br")

    def _netns(self, name: str) -> str:
        return f"{self._tag}-{name}"

    def _router(self, name: str) -> str:
        return f"{self._netns(name)}-router"

    def _home(self, name: str, number: int) -> str:
        """An address in the network behind a host's router."""
        return f"192.168.{list(self.addresses).index(name)}.{number}"

    def _cable(self, name: str) -> str:
        return f"{self._tag}-{list(self.addresses).index(name)}"  # names of links have 15 characters


@contextlib.contextmanager
def made_hosts(*names: str, routers: Mapping[str, Nat] = NO_ROUTERS) -> Iterator[Hosts]:
    """Hosts that are there while the block runs.

    Args:
        routers: those that some of them are behind.

    Raises:
        NoHosts: not root, not Linux, or no `ip` command; for routers, no `iptables`.
    """
    hosts = Hosts(names, f"sj{os.getpid() % 100_000}", routers)
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


def _add(netns: str) -> None:
    _ip("netns", "add", netns)
    _ip("-n", netns, "link", "set", "lo", "up")


def _use(netns: str, device: str, address: str) -> None:
    _ip("-n", netns, "addr", "add", address, "dev", device)
    _ip("-n", netns, "link", "set", device, "up")


def _ip(*arguments: str) -> None:
    _root("ip", *arguments)


def _root(name: str, *arguments: str) -> None:
    command = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if command is None or os.geteuid() != 0:
        raise NoHosts(f"hosts of their own need root and the `{name}` command")
    done = subprocess.run([command, *arguments], check=False, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        raise NoHosts(f"{name} {' '.join(arguments)}: {done.stderr.strip()}")
