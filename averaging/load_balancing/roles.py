"""Who computes gradients: the binary choice c_i in DeDLOC's program (Diskin et al. 2021, section 3.2).

A peer that sends no gradients saves its line for the parts that it averages, and those of others, but its samples are
missing. With rounds of T seconds and S samples a second of all trainers, a global step of B samples takes max(T, B / S)
seconds where rounds overlap with computing, and T + B / S where they do not.

Where everybody's gradients together are averaged before the next batch is there, everybody trains and nothing has to be
searched. In small groups all choices are tried. In larger ones finding the best is a knapsack problem, which the paper
relaxes and rounds; here, for many deadlines T, peers stop training one after another, those first that give the fewest
samples for what they cost the round, until T is kept. The best of these choices is improved by letting single peers,
and pairs, change sides, and by deadlines near its own, for as long as that helps. `benchmarks/plan.py` measures how far
from the best that is.
"""

import numpy as np

from averaging.load_balancing.closed_form import Flags, Floats, Lines, keeps, round_seconds

TRIED_IN_FULL = 10  # peers that could train; 2^10 choices take some 20 ms
DEADLINES = 16  # from the shortest to the longest round that may matter
PROBES = 32  # numbers of peers that are looked at together
GUESSES = 2  # how many will train, which says what each of them costs, is first guessed, then known better
MOVES = 128  # choices beside the best one that a step of improvement looks at, and about as many pairs
NEARBY = (0.9, 0.97, 0.99, 1.0, 1.01, 1.03, 1.1)  # deadlines beside that of the best choice
IMPROVEMENTS = 8  # steps of improvement at most
SAME = 1e-9  # relative difference of two times that counts as none


def choose_trainers(lines: Lines, speeds: Floats, samples: float, *, overlap: bool) -> Flags:
    """The trainers, [n], with whom a global step is shortest; among equals, those with most samples a second.

    Args:
        speeds: samples a second of each peer, [n]; a peer with 0 never trains.
        samples: of a global step.
    """
    able = speeds > 0.0
    if not able.any() or (overlap and keeps(lines, able[None], samples / speeds.sum())[0]):
        return able

    def best(choices: Flags) -> Flags:
        seconds = step_seconds(lines, choices, speeds, samples, overlap=overlap)
        good = choices[seconds <= seconds.min() * (1.0 + SAME)]
        return good[np.argmax((good * speeds).sum(axis=1))]

    if able.sum() <= TRIED_IN_FULL:
        return best(_all_choices(able))
    found = best(np.vstack([_lone(lines, speeds), *(_keeping(one, lines, speeds) for one in _deadlines(lines, able))]))
    for _ in range(IMPROVEMENTS):
        needs = round_seconds(lines, found[None])[0]
        nearby = [_keeping(needs * factor, lines, speeds) for factor in NEARBY] if np.isfinite(needs) else []
        better = best(np.vstack([_beside(found, speeds), *nearby]))
        if (better == found).all():
            break
        found = better
    return found


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


def _all_choices(able: Flags) -> Flags:
    """Every choice of at least one of those who are able to, the one with all of them first."""
    places = np.flatnonzero(able)
    numbers = np.arange(2 ** len(places) - 1, 0, -1)
    choices = np.zeros((len(numbers), len(able)), dtype=np.bool_)
    choices[:, places] = (numbers[:, None] >> np.arange(len(places))) & 1
    return choices


def _lone(lines: Lines, speeds: Floats) -> Flags:
    """Each of the fastest training alone, and the one with the thinnest download, which has least to get; [K, n]."""
    able = np.flatnonzero(speeds > 0.0)
    fastest = able[np.argsort(-speeds[able], kind="stable")][:MOVES]
    places = np.append(fastest, able[np.argmin(lines.download[able])])
    return places[:, None] == np.arange(len(speeds))


def _deadlines(lines: Lines, able: Flags) -> Floats:
    """From the shortest to the longest round that may matter, and when a peer's own bound falls away; [K]."""
    with np.errstate(divide="ignore"):
        single = np.concatenate([1.0 / lines.download, 1.0 / lines.upload[able], round_seconds(lines, able[None])])
    times = np.unique(single[np.isfinite(single)])
    if not len(times):
        return times
    some = times[np.linspace(0, len(times) - 1, DEADLINES).astype(int)]
    return np.unique([*np.geomspace(times[0], times[-1], DEADLINES), *some])


def _keeping(deadline: float, lines: Lines, speeds: Floats) -> Flags:
    """Large choices that keep a deadline, if any do: each for an order in which peers stop training; [K, n]."""
    trains = (speeds > 0.0) & (lines.upload * deadline >= 1.0)
    if not trains.any():
        return np.zeros((0, len(speeds)), dtype=np.bool_)
    kept = [_first_to_keep(deadline, lines, trains, speeds)]
    for _ in range(GUESSES):
        freed, relief = _gains(lines, deadline, float(kept[-1].sum()))
        kept.append(_first_to_keep(deadline, lines, trains, speeds / np.maximum(freed + relief, SAME)))
    return np.array(kept)


def _gains(lines: Lines, deadline: float, trainers: float) -> tuple[Floats, float]:
    """What could be averaged beside when one of the trainers stops: by each of them itself, [n], and by all others."""
    others = len(lines.upload) - 1.0

    def cap(own: float, number: float) -> Floats:
        up = (lines.upload * deadline - own) / max(others - own, 1.0)
        down = (lines.download * deadline - 1.0) / max(number - 1.0 - own, 1.0)
        return np.where(lines.reachable, np.clip(np.minimum(up, down), 0.0, 1.0), 0.0)

    now, fewer = cap(1.0, trainers), cap(1.0, trainers - 1.0)
    return cap(0.0, trainers - 1.0) - fewer, (fewer - now).sum()


def _first_to_keep(deadline: float, lines: Lines, trains: Flags, worth: Floats) -> Flags:
    """The trainers without as many of those worth least as it takes to keep a deadline; one is left in any case.

    The fewer train, the shorter is a round, so the number is found by looking between two that are known.
    """
    order = np.argsort(np.where(trains, worth, np.inf), kind="stable")[: int(trains.sum())]
    rank = np.full(len(trains), -1)
    rank[order] = np.arange(len(order))
    fewest, most = 0, len(order) - 1
    while fewest < most:
        numbers = np.unique(np.linspace(fewest, most - 1, PROBES).astype(int))
        kept = keeps(lines, rank >= numbers[:, None], np.full(len(numbers), deadline))
        first = int(np.argmax(kept)) if kept.any() else len(numbers)
        fewest = int(numbers[first - 1]) + 1 if first else fewest
        most = int(numbers[first]) if first < len(numbers) else most
    return rank >= fewest


def _beside(trains: Flags, speeds: Floats) -> Flags:
    """The choice itself, those in which one peer changes sides, and those in which two change places."""
    places = np.flatnonzero(speeds > 0.0)
    inside, outside = places[trains[places]], places[~trains[places]]
    slowest = inside[np.argsort(speeds[inside], kind="stable")]
    fastest = outside[np.argsort(-speeds[outside], kind="stable")]
    width = int(MOVES**0.5)
    moves = [(place,) for place in (*fastest[: MOVES // 2], *slowest[: MOVES // 2])]
    swaps = [(one, other) for one in slowest[:width] for other in fastest[:width]]
    choices = np.repeat(trains[None], 1 + len(moves) + len(swaps), axis=0)
    for row, changed in enumerate((*moves, *swaps), start=1):
        choices[row, list(changed)] ^= True
    return choices[choices.any(axis=1)]
