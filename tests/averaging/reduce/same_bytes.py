"""Prints digests of encoded means of fixed pieces, and of what they decode to: `python -m` this, on any processor."""

import hashlib
import json

import numpy as np

from averaging.reduce.gradient_codec import Compression, decode, encode_piece
from averaging.reduce.grid import Grid
from averaging.reduce.reducer import average

KINDS: tuple[Compression, ...] = ("8bit", "float16", "none")
WEIGHTS = {"ada": 700, "bob": 300, "zoe": 20}


def digests() -> dict[str, str]:
    """By kind. The numbers are made of integers, because libraries differ in how they draw random ones."""
    grid = Grid(61_808)
    chunk = grid.count - 1  # the one that ends in a rest
    elements = grid.size(chunk)
    found: dict[str, str] = {}
    for kind in KINDS:
        pieces = []
        for number, (session, weight) in enumerate(WEIGHTS.items(), 3):
            whole = (np.arange(elements, dtype=np.uint64) * (2_654_435_761 + number) % 2**24).astype(np.float32)
            pieces.append((session, encode_piece((whole - np.float32(2**23)) / np.float32(2**20), weight, kind)))
        loud = encode_piece(np.float32(9) * decode(pieces[0][1][4:], elements, kind), WEIGHTS["ada"], kind)
        mean = average(grid, kind, pieces, chunk, WEIGHTS).encoded
        crowd = [(f"peer {number}", piece) for number, piece in enumerate([*[pieces[0][1]] * 5, loud])]
        scaled = average(grid, kind, crowd, chunk, {one: WEIGHTS["ada"] for one, _ in crowd}, "enforce").encoded
        decoded = decode(mean, elements, kind).astype("<f4").tobytes()
        found[kind] = hashlib.sha256(b"".join(piece for _, piece in pieces) + mean + decoded).hexdigest()[:16]
        found[f"{kind}, scaled down"] = hashlib.sha256(scaled).hexdigest()[:16]
    return found


if __name__ == "__main__":
    print(json.dumps(digests()))  # noqa: T201
