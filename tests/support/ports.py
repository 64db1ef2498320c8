"""Ports for programs that are started later."""

import contextlib
import secrets
import socket

PORTS = range(20_000, 30_000)  # no system gives these to those who ask for any port


def free_ports(count: int) -> list[int]:
    """TCP ports of this machine that nobody listens on, and that stay free until they are used."""
    found = set[int]()
    while len(found) < count:
        port = secrets.choice(PORTS)  # not by a seed, which tests that run beside this one may have set alike
        with contextlib.suppress(OSError), socket.create_server(("", port)):
            found.add(port)
    return list(found)


def free_port() -> int:
    """One of them."""
    return free_ports(1)[0]
