"""Which peers average together when there are too many for one group (Moshpit SGD, Ryabinin et al. 2021, algorithm 1).

Think of M^d peers as the points of a grid with d sides of M points. Averaging along one side after another gives
everybody the mean of all after d rounds, each in groups of M. Moshpit does this without anybody who knows the grid:
a peer's key is its last d - 1 coordinates, and peers with the same key, who differ only in the oldest
coordinate, meet. The group gives each of its members another index from 0 to M - 1; this is its new coordinate:
it is appended to the key and the oldest one falls out. So peers that have met are spread over M different groups, and
in d rounds no two meet twice.

In hivemind a key is a string of bits (`averager.0b0110`), and a coordinate is the index in log2 M bits. This holds for
keys of any number of bits b, whether log2 M divides it or not: on a full grid, 2^b groups of M, the mean is exact after
1 + ceil(b / log2 M) rounds. Proof: the members of the next group with key k come from the groups whose keys end with
all but the last log2 M bits of k, as many members from each; round by round fewer bits of the older keys are fixed,
until none are.
"""

import math
import random
from collections.abc import Sequence

SLACK = 1.5  # groups are split above this many times the target size, and joined below the target over this


def is_group_size(size: int) -> bool:
    """Whether indices in a group of this size fill whole bits."""
    return size >= 2 and size & (size - 1) == 0


def index_bits(group_size: int) -> int:
    """Bits of an index in a group.

    Raises:
        ValueError: the size is not a power of two.
    """
    if not is_group_size(group_size):
        raise ValueError(f"the size of groups must be a power of two, got {group_size}")
    return group_size.bit_length() - 1


def key_bits(peers: int, group_size: int, bits: int | None = None) -> int:
    """Bits of a group's key for this many peers: the fewest with which no group of theirs is above its size.

    Args:
        bits: how many there are now. They are kept while groups are between the target size over 1.5 and 1.5 times the
        target
            size, so that peers who come and go do not tear all groups apart; None: there are none yet.
    """
    fewest = max(0, math.ceil(math.log2(max(peers, 1) / group_size)))
    if bits is not None and fewest != bits:
        mean = peers / 2**bits
        small, large = group_size / SLACK, group_size * SLACK
        if mean <= large and (mean >= small or bits == 0):
            return bits
    return fewest


def rounds_to_mix(bits: int, group_size: int) -> int:
    """Rounds after which a full grid has the exact mean: the d of the paper."""
    return 1 + math.ceil(bits / index_bits(group_size))


def first_key(peer_id: bytes, bits: int) -> str:
    """The key with which a peer begins: evenly spread over all groups, and the same whenever it is asked for."""
    return _random_bits(random.Random(peer_id), bits)


def next_key(key: str, index: int, group_size: int) -> str:
    """The key for the next round: the index in the group that has just averaged comes in, the oldest bits fall out.

    Args:
        index: of `indices`.
    """
    new = f"{index:0{index_bits(group_size)}b}"
    return (key + new)[-len(key) :] if key else ""


def indices(group_id: bytes, members: int, group_size: int) -> list[int]:
    """A new index for each member of a group, in the group's order; all members draw the same.

    In a group that is too small, not all indices are drawn; in one that is too large some twice, and as evenly as can
    be.
    """
    rng = random.Random(group_id)
    drawn: list[int] = []
    while len(drawn) < members:
        drawn += rng.sample(range(group_size), min(group_size, members - len(drawn)))
    return drawn


def resized_key(key: str, bits: int, peer_id: bytes) -> str:
    """The key when the number of bits has changed with the number of peers.

    With a bit more every group is split in two by its members' ids; with a bit less two groups become one. The newest
    bits stay, so that peers who have just met stay apart.
    """
    if bits <= len(key):
        return key[len(key) - bits :]
    return _random_bits(random.Random(peer_id + key.encode()), bits - len(key)) + key


def meeting(keys: Sequence[str]) -> dict[str, list[int]]:
    """The groups that peers with these keys form: for each key the positions of those who have it."""
    groups: dict[str, list[int]] = {}
    for position, key in enumerate(keys):
        groups.setdefault(key, []).append(position)
    return groups


def _random_bits(rng: random.Random, bits: int) -> str:
    return f"{rng.getrandbits(bits):0{bits}b}" if bits else ""
