"""The seconds of a round with given senders of gradients: the program of DeDLOC in closed form.

The model is DeDLOC's (Diskin et al. 2021, section 3.2): lines are limited at their ends, per direction. n peers, of
which C are trainers (c_i = 1, the others 0), average a vector. Peer i averages the share w_i of it, and the shares add
up to 1. Measured in whole vectors,

- a trainer sends every part but its own to its reducer, and the reducer of a part sends its mean to all
  others:  up_i = c_i (1 - w_i) + (n - 1) w_i;
- the reducer of a part gets it from all other trainers, and every peer gets every mean but its own:
  down_i = (C - c_i) w_i + (1 - w_i).

With U_i and D_i, the vectors a second that a line carries, a round is done within T seconds if and only if
up_i <= U_i T and down_i <= D_i T for all i. Both are linear in w_i alone, so they say how large a share may be,

    w_i <= cap_i(T) = min(1, (U_i T - c_i) / (n - 1 - c_i), (D_i T - 1) / (C - 1 - c_i)),

0 for a peer in client mode, to which no part can be sent; and how short T may be whatever the share: U_i T >= c_i
and D_i T >= 1. Shares that add up to 1 exist if and only if the caps add up to at least 1. Their sum grows with T, is
concave and piecewise linear, so the shortest T is found exactly by a few steps of Newton's method: no step overshoots,
and each ends on a later piece. (A zero below a fraction line means that the share costs that line nothing. A lone
trainer's own part even saves it a download; that is left out: lines are hardly ever slower down than up.)

Why this has the optimum of the whole program (`benchmarks/linear_program.py`), which chooses for each pair of peers
what they send each other: there g_ij, the means that i sends to j, is at most a_ki, the gradients that i gets from k,
for every trainer k and every j. All g_ij over i add up to at least one vector a round, and all a_ki over i to at most
one, because an element is averaged once. So for every k and j both sums are equal to one, hence g_ij = a_ki term by
term: one number for each i, its share. What remains of the program are the two lines above.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

ENOUGH = 1.0 - 1e-12  # a sum of caps that counts as one: below it only rounding is missing
PIECES_PER_PEER = 4  # of the sum of caps, at most; Newton's method needs no more steps than there are pieces


@dataclass(frozen=True)
class Lines:
    """The lines of n peers: whole vectors a second up and down, and whether others can reach the peer; each [n]."""

    upload: Floats
    download: Floats
    reachable: Flags


@dataclass(frozen=True)
class _Caps:
    """The two bounds of each share as straight lines over T: slope T - offset; each [K, n]."""

    up_slope: Floats
    up_offset: Floats
    down_slope: Floats
    down_offset: Floats

    def at(self, seconds: Floats) -> tuple[Floats, Floats]:
        """Caps within 0 and 1, and how fast each grows, [K, n], when rounds take `seconds`, [K]."""
        seconds = seconds[:, None]
        up, down = self.up_slope * seconds - self.up_offset, self.down_slope * seconds - self.down_offset
        lower = np.minimum(up, down)
        slope = np.where(up < down, self.up_slope, self.down_slope)
        slope = np.where(up == down, np.minimum(self.up_slope, self.down_slope), slope)
        return np.clip(lower, 0.0, 1.0), np.where(lower < 1.0, slope, 0.0)


def round_seconds(lines: Lines, trains: Flags) -> Floats:
    """The shortest rounds for K choices of who sends gradients.

    Args:
        trains: [K, n]; at least one trainer in each row.

    Returns:
        Seconds, [K]; infinite where no round ever ends: no peer can average, or a line that is needed carries nothing.
    """
    caps, seconds = _caps(lines, trains), _shortest(lines, trains)
    possible = np.isfinite(seconds)
    for _ in range(PIECES_PER_PEER * trains.shape[1] + 1):
        values, slopes = caps.at(np.where(possible, seconds, 0.0))
        missing, growth = 1.0 - values.sum(axis=1), slopes.sum(axis=1)
        short = possible & (missing > 1.0 - ENOUGH)
        if not short.any():
            break
        possible &= ~(short & (growth <= 0.0))
        short &= possible
        seconds = np.where(short, seconds + missing / np.where(short, growth, 1.0), seconds)
    return np.where(possible, seconds, np.inf)


def best_shares(lines: Lines, trains: Flags, seconds: float) -> Floats:
    """Shares, [n], with which a round takes `seconds`, the shortest that there is.

    Where that time is due to peers whose lines are busy with their own gradients alone, the shares of the others are
    free within limits. Then these get shares with which they are done as early as possible: in the least time in which
    the peers that have room for a part by then can average everything. Equal peers get equal parts, and a peer that can
    do all of it before the thin ones have sent their gradients does all of it.
    """
    caps = _caps(lines, trains[None])

    def caps_within(time: float) -> Floats:
        values, _ = caps.at(np.array([time]))
        fits = (lines.upload * time >= trains) & (lines.download * time >= 1.0)
        return np.where(fits | (time >= seconds), values[0], 0.0)

    least, enough = 0.0, seconds
    while least < (middle := (least + enough) / 2.0) < enough:
        if caps_within(middle).sum() >= ENOUGH:
            enough = middle
        else:
            least = middle
    values = caps_within(enough)
    return values / values.sum()


def traffic(shares: Floats, trains: Flags) -> tuple[Floats, Floats]:
    """What each peer sends and gets in a round, in whole vectors, [n] each."""
    others, trainers = len(shares) - 1, int(trains.sum())
    up = trains * (1.0 - shares) + others * shares
    down = (trainers - trains) * shares + (1.0 - shares)
    return up, down


def _caps(lines: Lines, trains: Flags) -> _Caps:
    own = trains.astype(np.float64)
    peers, trainers = trains.shape[1], own.sum(axis=1, keepdims=True)

    def bound(line: Floats, offset: Floats, load: Floats) -> tuple[Floats, Floats]:
        costs = load > 0.0
        slope = np.where(costs, line / np.where(costs, load, 1.0), 0.0)
        intercept = np.where(costs, offset / np.where(costs, load, 1.0), -1.0)  # no bound: the constant 1
        return np.where(lines.reachable, slope, 0.0), np.where(lines.reachable, intercept, 0.0)

    up = bound(lines.upload, own, peers - 1.0 - own)
    down = bound(lines.download, np.ones_like(own), trainers - 1.0 - own)
    return _Caps(*up, *down)


def _shortest(lines: Lines, trains: Flags) -> Floats:
    """The least seconds of a round, whatever the shares, [K]: trainers send all elements once, all peers get them."""
    if trains.shape[1] == 1:
        return np.zeros(len(trains))
    with np.errstate(divide="ignore"):
        send, get = 1.0 / lines.upload, 1.0 / lines.download
    return np.maximum(np.where(trains, send, 0.0).max(axis=1), get.max())
