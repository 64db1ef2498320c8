"""Which addresses a peer behind a router tells others, and whom it calls when. Pure: no socket and no clock.

Routers let in what comes from where something was sent to. So two peers behind routers call each other at the address
at which others see them, again and again until a call of one comes through the hole that a call of the other has made
(UDP hole punching, as QUIC allows it). Nobody has to tell them the moment: a hole stays open for 30 s and longer, the
first calls are nearer to each other than that, and all go from the one port that others see.
"""

import ipaddress
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from averaging.protocol.messages import Contact
from swarm.dht.multiaddrs import quic_host

MOST_SEEN = 2  # addresses that are told: of IPv4 and of IPv6, or the two of a router that has changed its port
MOST_HOME = 2  # addresses in the home network
FIRST_PAUSE, LONGER, LONGEST_PAUSE = 8.0, 1.5, 300.0  # seconds between two calls; a daemon's own pause is 5 s
MOST_CALLED = 64  # peers; in larger swarms enough others can be reached


@dataclass(frozen=True)
class Whereabouts:
    """Addresses (QUIC multiaddrs) of a peer behind a router."""

    seen: tuple[str, ...] = ()  # as others see it
    home: tuple[str, ...] = ()  # in its own network

    def from_there(self, other: "Whereabouts") -> tuple[str, ...]:
        """Those that lead here from another peer: its home is ours if both are seen at the same host."""
        hosts = {quic_host(one) for one in other.seen}
        same_home = any(quic_host(one) in hosts for one in self.seen)
        return (*self.seen, *(self.home if same_home else ()))


def checked(seen: Iterable[str], home: Iterable[str]) -> Whereabouts:
    """What another peer says of itself, without what is no address of QUIC, and home addresses that are none."""
    homes = (one for one in map(_plain, home) if one is not None and _is_home(one))
    return Whereabouts(tuple(one for one in map(_plain, seen) if one is not None), tuple(homes))


def one_of_each_user(seen: Mapping[str, str], listed: Mapping[str, Contact]) -> list[str]:
    """Addresses at which others see this peer, the coordinator's word first: many peers of one user count as one.

    Args:
        seen: by session.
        listed: contacts by session; the word of those that nobody reaches, or that are not there, does not count.
    """
    known = [(listed[session], address) for session, address in seen.items() if session in listed]
    known.sort(key=lambda one: not one[0].is_coordinator)
    words = dict[str, str]()
    for contact, address in known:
        if contact.reachable:
            words.setdefault(contact.user, address)
    return list(words.values())


def whereabouts(said: Iterable[str], visible: Iterable[str]) -> Whereabouts:
    """What a peer tells others of itself, without what is no address of QUIC.

    Those that most have seen come first, so that one liar among three cannot send others elsewhere. A public address
    that the daemon names is this machine's own, or was opened by the router for it (UPnP, NAT-PMP).

    Args:
        said: at which addresses others see it.
        visible: addresses that its libp2p daemon names.
    """
    plain = [one for one in map(_plain, visible) if one is not None]
    opened = [one for one in plain if _is_public(one)]
    counts = Counter(one for one in map(_plain, said) if one is not None)
    seen = [address for address, _ in counts.most_common(MOST_SEEN)]
    home = [one for one in plain if _is_home(one)]
    return Whereabouts(tuple(dict.fromkeys([*opened, *seen]))[:MOST_SEEN], tuple(home[:MOST_HOME]))


@dataclass
class _Callee:
    """A peer that is called now and then."""

    addresses: Sequence[str]
    pause: float = FIRST_PAUSE  # after the next call, in seconds
    due_at: float = float("-inf")


class Calls:
    """When to call whom. A peer that does not answer is called less and less often, until its address changes."""

    def __init__(self) -> None:
        self._callees: dict[str, _Callee] = {}  # by session

    def due(
        self, others: Mapping[str, Sequence[str] | None], connected: Collection[str], now: float
    ) -> dict[str, Sequence[str]]:
        """Whom to call now, at which addresses; one that is connected is called at once when that breaks.

        Args:
            others: addresses of all that are listed, by session; empty: no way leads there; None: libp2p finds one.
            connected: sessions.
        """
        if len(others) > MOST_CALLED:
            return {}
        wanted = {one: ways or () for one, ways in others.items() if ways != () and one not in connected}
        known = self._callees
        self._callees = {
            one: known[one] if one in known and known[one].addresses == ways else _Callee(ways)
            for one, ways in wanted.items()
        }
        due = {one: callee for one, callee in self._callees.items() if now >= callee.due_at}
        for callee in due.values():
            callee.due_at = now + callee.pause
            callee.pause = min(LONGEST_PAUSE, LONGER * callee.pause)
        return {one: callee.addresses for one, callee in due.items()}


def _plain(address: str) -> str | None:
    """IP address and port of an address of QUIC, without a peer id; None of any other."""
    return None if _ip(address) is None else "/".join(address.split("/")[:6])


def _ip(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(quic_host(address) or "")
    except ValueError:
        return None


def _is_public(address: str) -> bool:
    ip = _ip(address)
    return ip is not None and ip.is_global


def _is_home(address: str) -> bool:
    ip = _ip(address)
    return ip is not None and not (ip.is_global or ip.is_loopback or ip.is_link_local)
