"""libp2p multiaddrs, as /ip4/1.2.3.4/tcp/31337/p2p/Qm..."""

import contextlib
from collections.abc import Iterable

from hivemind.p2p import PeerID
from hivemind.utils.multiaddr import Multiaddr

from swarm.errors import SwarmError

HOSTS = ("ip4", "ip6", "dns", "dns4", "dns6")  # kinds of host in an address


def is_address(address: str) -> bool:
    """Whether this is a libp2p multiaddr."""
    try:
        check_address(address)
    except SwarmError:
        return False
    return True


def leads_to(address: str, peer_id: PeerID) -> bool:
    """Whether an address is just a host, a TCP port and the id of this peer."""
    parts = list(Multiaddr(address).items()) if is_address(address) else []
    if len(parts) != 3:
        return False
    host, port, peer = parts
    kinds = host[0].name, port[0].name, peer[0].name
    return kinds in {(kind, "tcp", "p2p") for kind in HOSTS} and peer[1] == str(peer_id)


def quic_beside(address: str) -> str | None:
    """The address of QUIC with the same host, number of port and peer id as one of TCP; None if there is none."""
    parts = address.split("/")
    if len(parts) not in (5, 7) or parts[1] not in HOSTS or parts[3] != "tcp" or parts[4] == "0":
        return None
    return "/".join([*parts[:3], "udp", parts[4], "quic-v1", *parts[5:]])


def quic_host(address: str) -> str | None:
    """The host of an address of QUIC; None of another one."""
    parts = address.split("/")
    is_one = len(parts) in (6, 8) and parts[1] in HOSTS and parts[3] == "udp" and parts[5] == "quic-v1"
    return parts[2] if is_one and is_address(address) else None


def is_loopback(address: str) -> bool:
    """Whether a multiaddr leads to the machine that it is used on."""
    return address.startswith(("/ip4/127.", "/ip6/::1/"))


def printed(addresses: Iterable[Multiaddr]) -> list[str]:
    """As text. Those of protocols that hivemind does not know are left out: they raise a ValueError."""
    found = []
    for address in addresses:
        with contextlib.suppress(ValueError):
            found.append(str(address))
    return found


def check_address(address: str) -> None:
    """Raise SwarmError if `address` is not a libp2p multiaddr."""
    try:
        Multiaddr(address)
    except Exception:
        raise SwarmError(
            f"{address or repr(address)}: not an address; expected a form like /ip4/127.0.0.1/tcp/31337/p2p/Qm..."
        ) from None
