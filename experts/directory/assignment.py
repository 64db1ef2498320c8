"""Who serves which expert, and who copies it: pure functions of what the hosts say about themselves.

Every host applies the same rules to the same records, so nobody has to be asked. While records differ for some seconds
two hosts may serve one expert; then one of them gives way, and the steps that it has taken since are lost.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from experts.grid import Grid, Uid, all_uids

SAFE = 2  # users that have a state besides us


@dataclass(frozen=True)
class Holdings:
    """What a host has, with versions."""

    peer: str  # its peer id in base58
    serves: Mapping[Uid, int] = field(default_factory=dict)
    copies: Mapping[Uid, int] = field(default_factory=dict)
    leaves: bool = False  # it computes no more, and hands out the states of what it has served


@dataclass(frozen=True)
class Assignment:
    """What a host is to have."""

    serves: frozenset[Uid]
    copies: frozenset[Uid]


def servers(hosts: Sequence[Holdings]) -> dict[Uid, str]:
    """The peer that serves each expert. Of several it is the one with most steps, then the first in a random order."""
    best: dict[Uid, tuple[int, bytes, str]] = {}
    for host in hosts:
        for uid, version in host.serves.items():
            claim = version, _draw(uid, host.peer), host.peer
            best[uid] = max(best.get(uid, claim), claim)
    return {uid: peer for uid, (_, _, peer) in best.items()}


def successors(hosts: Sequence[Holdings]) -> dict[Uid, str]:
    """The peer that is to serve each expert that it has a copy of, because nobody serves one with as many steps.

    That is the one with the newest copy. A host that serves less than a copy has begun anew while the copy was away.
    For one that leaves, somebody goes on as soon as a copy has as many steps.
    """
    staying = [host for host in hosts if not host.leaves]
    served = _most(host.serves for host in staying)
    left = _most(host.serves for host in hosts if host.leaves)
    newest = _most(host.copies for host in staying)
    copies = [Holdings(host.peer, serves=host.copies) for host in staying]
    return {
        uid: peer
        for uid, peer in servers(copies).items()
        if newest[uid] > served.get(uid, -1) and newest[uid] >= left.get(uid, -1)
    }


def not_taken_over(own: Holdings, others: Sequence[Holdings]) -> set[Uid]:
    """Experts of our host, which leaves, that a standby has a copy of and that nobody serves yet with as many steps."""
    staying = [host for host in others if not host.leaves]
    served, copied = _most(host.serves for host in staying), _most(host.copies for host in staying)
    return {uid for uid, version in own.serves.items() if uid in copied and served.get(uid, -1) < version}


def safe_elsewhere(versions: Mapping[Uid, int], others: Iterable[tuple[str, Holdings]], user: str) -> set[Uid]:
    """Experts that staying hosts of at least `SAFE` other users say to have in these versions or newer.

    Args:
        others: each with its user.
        user: of our host.
    """
    held = [(theirs, _most((host.serves, host.copies))) for theirs, host in others if not host.leaves]
    holders = {
        uid: {theirs for theirs, has in held if has.get(uid, -1) >= version} - {user}
        for uid, version in versions.items()
    }
    return {uid for uid, users in holders.items() if len(users) >= SAFE}


def at_least(hosts: Sequence[Holdings], seen: Mapping[tuple[str, Uid], int]) -> list[Holdings]:
    """The hosts with what we know to be newer than their records: versions that we have copied from a peer."""
    return [
        replace(host, serves={uid: max(version, seen.get((host.peer, uid), 0)) for uid, version in host.serves.items()})
        for host in hosts
    ]


def assign(own: Holdings, others: Sequence[Holdings], grid: Grid, capacity: int) -> Assignment:
    """What our host is to serve and to copy, at most `capacity` experts in all.

    It keeps what it serves unless another host has the better claim, takes over what it is the successor of, and fills
    what is left with experts that fewest others have: first those that nobody has, then those that nobody copies.
    """
    hosts = [own, *others]
    served = servers([host for host in hosts if not host.leaves])
    serves = {uid for uid in own.serves if served[uid] == own.peer}
    inherited = sorted(uid for uid, peer in successors(hosts).items() if peer == own.peer)
    serves.update(inherited[: max(0, capacity - len(serves))])
    had = serves.union(*(host.serves.keys() | host.copies.keys() for host in hosts))
    serves.update(_drawn((uid for uid in all_uids(grid) if uid not in had), own.peer)[: max(0, capacity - len(serves))])

    copies = [uid for uid in (*own.copies, *own.serves) if uid not in serves]
    spare = {
        uid for host in others for uid in host.copies if _draw(uid, host.peer) > _draw(uid, own.peer)
    }  # of two hosts with a copy one may use the place for another expert, and both know which
    copied = {uid for host in others for uid in host.copies}
    uncopied = _drawn((uid for uid in servers(hosts) if uid not in serves and uid not in copied), own.peer)
    wanted = dict.fromkeys((*(uid for uid in copies if uid not in spare), *uncopied, *copies))
    return Assignment(frozenset(serves), frozenset(list(wanted)[: max(0, capacity - len(serves))]))


def _most(held: Iterable[Mapping[Uid, int]]) -> dict[Uid, int]:
    """The most steps of each expert."""
    most: dict[Uid, int] = {}
    for versions in held:
        for uid, version in versions.items():
            most[uid] = max(version, most.get(uid, version))
    return most


def _drawn(uids: Iterable[Uid], peer: str) -> list[Uid]:
    return sorted(uids, key=lambda uid: _draw(uid, peer))


def _draw(uid: Uid, peer: str) -> bytes:
    """A random order of hosts that is another one for each expert, and the same everywhere."""
    return hashlib.sha256(f"{uid} {peer}".encode()).digest()
