"""Which peers average together when there are too many for one group (Moshpit SGD, Ryabinin et al. 2021, algorithm 1).

Think of M^d peers as the points of a grid with d sides of M points. Averaging along one side after another gives
all of them the mean after d rounds, each in groups of M. A peer's key is its last d - 1 coordinates, and peers with the
same key, which differ only in the oldest coordinate, meet. In a group each member draws another index from 0 to M - 1;
this is its new coordinate: it is appended to the key and the oldest one falls out. So peers that have met are spread
over M different groups, and in d rounds no two meet twice.

A key is a string of bits, and a coordinate is the index in log2 M bits. This holds for keys of any number of bits b,
whether log2 M divides it or not: on a full grid, 2^b groups of M, the mean is exact after 1 + ceil(b / log2 M) rounds.
Proof: the members of the next group with key k come from the groups whose keys end with all but the last log2 M bits of
k, as many members from each; round by round fewer bits of the older keys are fixed, until none are.
"""

import hashlib
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SMALLEST = 2  # peers that a group has to have on average


@dataclass(frozen=True)
class GroupSettings:
    """On which all peers of a run in small groups agree."""

    size: int  # of a group, about; a power of two
    rounds: int | None  # of a step; None: as many as a full grid needs
    state_every: int  # steps between two averages of parameters


def index_bits(group_size: int) -> int:
    """Bits of an index in a group.

    Raises:
        ValueError: the size is not a power of two.
    """
    if group_size < 2 or group_size & (group_size - 1):
        raise ValueError(f"the size of groups must be a power of two, got {group_size}")
    return group_size.bit_length() - 1


def key_bits(peers: int, group_size: int) -> int:
    """Bits of a group's key: the fewest with which groups are at most `group_size` on average, and at least two."""
    if peers <= group_size:
        return 0
    return min(math.ceil(math.log2(peers / group_size)), max(1, peers // SMALLEST).bit_length() - 1)


def rounds_to_mix(bits: int, group_size: int) -> int:
    """Rounds after which a full grid has the exact mean: the d of the paper."""
    return 1 + math.ceil(bits / index_bits(group_size))


def next_key(key: str, index: int, group_size: int) -> str:
    """The key for the next round: the index in the group that has just averaged comes in, the oldest bits fall out.

    Args:
        index: of `indices`.
    """
    new = f"{index:0{index_bits(group_size)}b}"
    return (key + new)[-len(key) :] if key else ""


def indices(seed: str, members: int, group_size: int) -> list[int]:
    """A new index for each member of a group, in the group's order.

    In a group that is too small, not all indices are drawn; in one that is too large some twice, and as evenly as can
    be.
    """
    rng = random.Random(seed)
    drawn: list[int] = []
    while len(drawn) < members:
        drawn += rng.sample(range(group_size), min(group_size, members - len(drawn)))
    return drawn


def meeting(keys: Sequence[str]) -> dict[str, list[int]]:
    """The groups that peers with these keys form: for each key the positions of those that have it."""
    groups: dict[str, list[int]] = {}
    for position, key in enumerate(keys):
        groups.setdefault(key, []).append(position)
    return groups


def first_keys(peers: int, group_size: int) -> list[str]:
    """Keys of peers that stand in a row, which is cut into groups as equal as can be."""
    bits = key_bits(peers, group_size)
    return [f"{rank * 2**bits // peers:0{bits}b}" if bits else "" for rank in range(peers)]


def following_keys(keys: Sequence[str], group_size: int, seed: str) -> list[str]:
    """Keys for the next round, after all groups have drawn their indices."""
    following = list(keys)
    for key, members in meeting(keys).items():
        for member, index in zip(members, indices(f"{seed} {key}", len(members), group_size), strict=True):
            following[member] = next_key(key, index, group_size)
    return following


def groups_of(own: str, sessions: Iterable[str], group_size: int, rounds: int | None, seed: str) -> list[list[str]]:
    """The members of a peer's group in each round of a global step; all that know the sessions find the same.

    Args:
        own: one of the sessions.
        rounds: None: as many as a full grid needs.
        seed: differs from step to step, and with it the row in which the peers stand.
    """
    row = sorted(set(sessions), key=lambda one: hashlib.sha256(f"{seed} {one}".encode()).digest())
    keys, place = first_keys(len(row), group_size), row.index(own)
    bits = len(keys[0])
    found = []
    for number in range((rounds or rounds_to_mix(bits, group_size)) if bits else 1):
        if number:
            keys = following_keys(keys, group_size, f"{seed} {number}")
        found.append([row[member] for member in meeting(keys)[keys[place]]])
    return found
