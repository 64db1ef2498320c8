"""Which peers compute gradients: the binary choice c_i in DeDLOC's program (Diskin et al. 2021, section 3.2).

A peer that sends no gradients saves its line for the parts that it averages, and those of others, but its samples are
missing. With rounds of T seconds and S samples a second of all trainers, a global step of B samples takes max(T, B / S)
seconds where rounds overlap with computing, and T + B / S where they do not.

Where the gradients of all peers are averaged before the next batch is there, all train and nothing has to be searched.
Otherwise finding the best choice is a knapsack problem, which the paper relaxes and rounds; here, for many deadlines T,
peers stop training one after another, those first that give the fewest samples for what they cost the round, until T is
kept. `benchmarks/plan.py` measures how far the best of these choices is from the best that there is; new roles count
only if they save a tenth of a step (`plan.py`).
"""

import numpy as np

from averaging.load_balancing.closed_form import Flags, Floats, Lines, round_seconds

DEADLINES = 32  # from the shortest to the longest round that may matter
NEARBY = 0.8, 1.25  # times the round of the best choice: deadlines that are looked at then
SAME = 1e-9  # relative difference of two times that counts as none


def choose_trainers(lines: Lines, speeds: Floats, samples: float, *, overlap: bool) -> Flags:
    """The trainers, [n], with which a global step is shortest; among equals, those with most samples a second.

    Args:
        speeds: samples a second of each peer, [n]; a peer with 0 never trains.
        samples: of a global step.
    """
    able = speeds > 0.0
    if able.sum() < 2 or (overlap and round_seconds(lines, able[None])[0] <= (1.0 + SAME) * samples / speeds.sum()):
        return able

    def best(choices: Flags) -> Flags:
        seconds = step_seconds(lines, choices, speeds, samples, overlap=overlap)
        good = choices[seconds <= seconds.min() * (1.0 + SAME)]
        return good[np.argmax((good * speeds).sum(axis=1))]

    found = best(_large_choices(lines, speeds, _deadlines(lines, able)))
    nearby = round_seconds(lines, found[None]) * np.linspace(*NEARBY, DEADLINES)
    return best(np.vstack([found, _large_choices(lines, speeds, nearby)]))


def step_seconds(lines: Lines, trains: Flags, speeds: Floats, samples: float, *, overlap: bool) -> Floats:
    """Seconds of a global step for K choices of trainers, [K]; infinite where no round ends.

    Args:
        trains: [K, n]; rows without a trainer take infinitely long.
    """
    some = trains.any(axis=1)
    averaging, speed = round_seconds(lines, trains), (trains * speeds).sum(axis=1)
    computing = samples / np.where(some & (speed > 0.0), speed, 1.0)
    seconds = np.maximum(averaging, computing) if overlap else averaging + computing
    return np.where(some & (speed > 0.0), seconds, np.inf)


def _large_choices(lines: Lines, speeds: Floats, deadlines: Floats) -> Flags:
    """Large choices that keep deadlines, for two orders in which peers stop training; all that can train, too."""
    able = speeds > 0.0
    trains = able & (lines.upload * deadlines[:, None] >= 1.0)
    fastest = _first_to_keep(lines, deadlines, trains, np.broadcast_to(speeds, trains.shape))
    gains = _gains(lines, deadlines[:, None], fastest.sum(axis=1, keepdims=True))  # about as many will train
    return np.vstack([able, fastest, _first_to_keep(lines, deadlines, trains, speeds / np.maximum(gains, SAME))])


def _deadlines(lines: Lines, able: Flags) -> Floats:
    """From the shortest to the longest round that may matter, and when a peer's own bound falls away; [K]."""
    with np.errstate(divide="ignore"):
        single = np.concatenate([1.0 / lines.download, 1.0 / lines.upload[able], round_seconds(lines, able[None])])
    times = np.unique(single[np.isfinite(single)])
    some = times[np.linspace(0, len(times) - 1, DEADLINES).astype(int)]
    return np.unique([*np.geomspace(times[0], times[-1], DEADLINES), *some])


def _gains(lines: Lines, deadlines: Floats, trainers: Floats) -> Floats:
    """What could be averaged beside, by itself and by all others, when one of the trainers stops; [K, n].

    Args:
        deadlines: [K, 1].
        trainers: how many there are, [K, 1].
    """
    others = len(lines.upload) - 1.0

    def cap(own: float, number: Floats) -> Floats:
        up = (lines.upload * deadlines - own) / max(others - own, 1.0)
        down = (lines.download * deadlines - 1.0) / np.maximum(number - 1.0 - own, 1.0)
        return np.where(lines.reachable, np.clip(np.minimum(up, down), 0.0, 1.0), 0.0)

    now, fewer = cap(1.0, trainers), cap(1.0, trainers - 1.0)
    return cap(0.0, trainers - 1.0) - fewer + (fewer - now).sum(axis=1, keepdims=True)


def _first_to_keep(lines: Lines, deadlines: Floats, trains: Flags, worth: Floats) -> Flags:
    """The trainers without as many of those worth least as it takes to keep each deadline, [K, n]; one stays at least.

    The fewer train, the shorter is a round, so their number is found by halving.
    """
    peers = trains.shape[1]
    rank = np.argsort(np.argsort(np.where(trains, worth, -np.inf), axis=1, kind="stable"), axis=1)
    fewest, most = peers - trains.sum(axis=1), np.full(len(trains), peers - 1)  # ranks below which nobody trains
    while (fewest < most).any():
        middle = (fewest + most) // 2
        kept = round_seconds(lines, rank >= middle[:, None]) <= deadlines * (1.0 + SAME)
        fewest, most = np.where(kept, fewest, middle + 1), np.where(kept, middle, most)
    return trains & (rank >= most[:, None])
