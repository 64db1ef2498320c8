"""Can other peers connect to this machine? A guess without flags, good enough to start with.

A machine with a public address can be reached, and so can one in the same local network as the coordinator.
One behind a router, as most volunteers', cannot: it joins in client mode.
"""

import ipaddress
import socket
from urllib.parse import urlsplit

SAME_NETWORK = {4: 16, 6: 64}  # bits that addresses of one local network have in common


def needs_client_mode(own: str, coordinator: str) -> bool:
    """Whether others cannot connect to the address `own`, from which we reach the address `coordinator`."""
    try:
        ours, theirs = ipaddress.ip_address(own), ipaddress.ip_address(coordinator)
    except ValueError:
        return True
    if ours.is_loopback or ours.is_global:
        return False
    if ours.version != theirs.version:
        return True
    network = ipaddress.ip_network((theirs, SAME_NETWORK[theirs.version]), strict=False)
    return ours not in network


def addresses_towards(url: str) -> tuple[str, str]:
    """Our own address and the coordinator's on the way to a URL; empty where there is no way."""
    parts = urlsplit(url)
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            parts.hostname, parts.port or (443 if parts.scheme == "https" else 80), type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)  # of UDP: nothing is sent
            return str(probe.getsockname()[0]), str(target[0])
    except OSError:
        return "", ""
