"""Where a peer looks for its groups when a global step has several rounds in small groups (Moshpit, `keys.py`).

In the first round of a step all peers that are known stand in a row, in an order drawn from the number of the
step, and the row is cut into 2^b parts as equal as can be: no peer is without a group, as some would be with keys
drawn at random, and a peer that only some know of moves nobody but those at the cuts. Later rounds have Moshpit's keys.
"""

import hashlib
from collections.abc import Collection
from dataclasses import astuple, dataclass

from hivemind.utils import MSGPackSerializer

from trainer.averaging.moshpit.keys import SLACK, key_bits

SMALLEST = 2  # peers that a group has to have on average


@dataclass(frozen=True)
class Cell:
    """One place of the grid, where peers meet in one round."""

    round: int  # of the global step, from 0
    key: str  # bits
    seconds: float  # that a group waits for more members, once somebody is there
    full: int | None  # members with which a group need not wait; None: that is not known


@dataclass(frozen=True)
class Place:
    """A peer's place in the first round of a global step."""

    key: str
    members: int  # peers there, this one included
    peers: int  # in the whole grid


def grid_bits(peers: int, size: int, bits: int | None = None) -> int:
    """Bits of a key for this many peers; 0: all are one group.

    As Moshpit's, but groups of fewer than two on average are none: nine peers in groups of two are four groups.

    Args:
        peers: at least one.
        size: target size of a group.
        bits: how many there are now, which are kept for a while (`key_bits`); None: there are none yet.
    """
    return 0 if peers <= size else min(key_bits(peers, size, bits), _most_bits(peers))


def other_bits(peers: int, size: int, bits: int) -> int:
    """The bits that others may have while this peer has `bits`; the same where there is no choice.

    Within the slack of `key_bits` it depends on the past how many there are. Who finds nobody tries the other one.
    """
    for other in (bits - 1, bits + 1):
        mean = peers / 2**other if other >= 0 else 0.0
        if other <= _most_bits(peers) and size / SLACK <= mean <= size * SLACK:
            return other
    return bits


def place_of(own: bytes, others: Collection[bytes], bits: int, step: int, of: str) -> Place:
    """Where a peer begins.

    Args:
        own: its id.
        others: ids of the other peers.
        bits: of the key.
        step: global step.
        of: what is averaged; each has an order of its own.
    """
    row = sorted({own, *others}, key=lambda peer: hashlib.sha256(f"{of} {step} ".encode() + peer).digest())
    cells = [rank * 2**bits // len(row) for rank in range(len(row))]
    cell = cells[row.index(own)]
    return Place(f"{cell:0{bits}b}" if bits else "", cells.count(cell), len(row))


def packed(cell: Cell | None) -> tuple[object, ...] | None:
    """A cell as it stands in a message."""
    return None if cell is None else astuple(cell)


def read_cell(gathered: bytes) -> Cell | None:
    """The cell in what this peer itself tells its group (`told.py`); None: there is no grid."""
    _, _, _, _, cell, *_ = MSGPackSerializer.loads(MSGPackSerializer.loads(gathered)[2])
    return None if cell is None else Cell(*cell)


def _most_bits(peers: int) -> int:
    return max(0, (peers // SMALLEST).bit_length() - 1)
