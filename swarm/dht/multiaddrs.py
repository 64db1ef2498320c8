"""libp2p multiaddrs, as /ip4/1.2.3.4/tcp/31337/p2p/Qm..."""

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


def is_loopback(address: str) -> bool:
    """Whether a multiaddr leads to the machine that it is used on."""
    return address.startswith(("/ip4/127.", "/ip6/::1/"))


def check_address(address: str) -> None:
    """Raise SwarmError if `address` is not a libp2p multiaddr."""
    try:
        Multiaddr(address)
    except Exception:
        raise SwarmError(
            f"{address or repr(address)}: not an address; expected a form like /ip4/127.0.0.1/tcp/31337/p2p/Qm..."
        ) from None
