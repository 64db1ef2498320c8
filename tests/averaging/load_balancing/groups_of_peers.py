"""Random groups for the tests of plans, and a round counted message by message."""

from collections.abc import Sequence

import numpy as np

from averaging.load_balancing.closed_form import Flags, Floats, Lines


def random_lines(rng: np.random.Generator, peers: int) -> Lines:
    """Lines that differ by a factor of 100, sometimes alike, faster down than up; some in client mode."""
    upload = np.exp(rng.uniform(-2, 3, peers))
    if rng.random() < 0.2:
        upload = np.full(peers, upload[0])
    return Lines(upload, upload * np.exp(rng.uniform(0, 2, peers)), rng.random(peers) < rng.uniform(0.2, 1.0))


def random_trainers(rng: np.random.Generator, peers: int) -> Flags:
    trains = rng.random(peers) < 0.7
    trains[rng.integers(peers)] = True
    return trains


def counted_seconds(lines: Lines, trains: Sequence[bool] | Flags, shares: Sequence[float] | Floats) -> float:
    """How long a round takes: every message of it is put on the two lines that it passes."""
    up, down = [0.0] * len(shares), [0.0] * len(shares)
    for owner, share in enumerate(shares):
        if share and not lines.reachable[owner]:
            return float("inf")
        for other in range(len(shares)):
            if other == owner:
                continue
            if trains[other]:  # its gradients of the owner's part
                up[other] += share
                down[owner] += share
            up[owner] += share  # the mean of the part
            down[other] += share
    with np.errstate(divide="ignore", invalid="ignore"):
        both = np.concatenate([np.array(up) / lines.upload, np.array(down) / lines.download])
    return float(np.nanmax(both))
