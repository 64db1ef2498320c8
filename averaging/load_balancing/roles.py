"""Who computes gradients: the binary choice c_i in DeDLOC's program (Diskin et al. 2021, section 3.2).

A peer that sends no gradients saves its line for the parts that it averages, and those of others, but its samples are
missing. With rounds of T seconds and S samples a second of all trainers, a global step of B samples takes max(T, B / S)
seconds where rounds overlap with computing, and T + B / S where they do not.

Where everybody's gradients together are averaged before the next batch is there, everybody trains and nothing has to be
searched. In small groups all choices are tried. In larger ones finding the best is a knapsack problem, which the paper
relaxes and rounds; here, for many deadlines T, peers stop training one after another, those first that give the fewest
samples for what they cost the round, until T is kept. The best of these choices is improved by letting single peers,
and pairs, change sides for as long as that helps. `benchmarks/plan.py` measures how far from the best that is.
"""

from dataclasses import dataclass

import numpy as np

from averaging.load_balancing.closed_form import Flags, Floats, Lines, keeps, round_seconds

TRIED_IN_FULL = 10  # peers that could train; 2^10 choices take some 20 ms
SMALL = 64  # peers; larger groups are searched in steps as coarse as time allows
DEADLINES = {True: 4, False: 12}  # of each kind; in small groups, in larger ones
REFINEMENTS = 3
WORTH_REFINING = 1e-3  # relative gain in time; below it no closer deadlines are tried
PROBES = {True: SMALL, False: 24}  # numbers of peers that are looked at together
GUESSES = 2  # how many will train, which says what each of them costs, is first guessed, then known better
MOVES = 128  # choices beside the best one that a step of improvement looks at, and about as many pairs
IMPROVEMENTS = 8  # steps of improvement at most
SAME = 1e-9  # relative difference of two times that counts as none


def choose_trainers(lines: Lines, speeds: Floats, samples: float, *, overlap: bool) -> Flags:
    """The trainers, [n], with whom a global step is shortest; among equals, those with most samples a second.

    Args:
        speeds: samples a second of each peer, [n]; a peer with 0 never trains.
        samples: of a global step.
    """
    able = speeds > 0.0
    if not able.any():
        return able
    if overlap and keeps(lines, able[None], samples / speeds.sum())[0]:
        return able
    group = _Group(lines, speeds, samples, overlap)
    if able.sum() <= TRIED_IN_FULL:
        return group.best(_all_choices(able))
    best = group.best(_by_deadlines(group, able))
    best = group.better(best, _lone(lines, speeds))
    for _ in range(IMPROVEMENTS):
        better = group.better(best, _beside(best, speeds))
        if (better == best).all():
            break
        best = better
    deadline = group.seconds(best[None])[0] if overlap else round_seconds(lines, best[None])[0]
    return group.better(best, _keeping(deadline, lines, speeds))


@dataclass(frozen=True)
class _Group:
    """What choices are judged by."""

    lines: Lines
    speeds: Floats
    samples: float
    overlap: bool

    def seconds(self, choices: Flags) -> Floats:
        return step_seconds(self.lines, choices, self.speeds, self.samples, overlap=self.overlap)

    def best(self, choices: Flags) -> Flags:
        """One of K choices, [K, n]."""
        seconds = self.seconds(choices)
        good = choices[seconds <= seconds.min() * (1.0 + SAME)]
        return good[np.argmax((good * self.speeds).sum(axis=1))]

    def better(self, best: Flags, choices: Flags) -> Flags:
        """The best one so far, or a better one; those that cannot be are left out first, which is cheaper."""
        now = self.seconds(best[None])[0] * (1.0 + SAME)
        if not np.isfinite(now):
            return self.best(np.vstack([best[None], choices]))
        speed = (choices * self.speeds).sum(axis=1)
        computing = self.samples / np.where(speed > 0.0, speed, self.samples / (2.0 * now))
        allowed = np.where(computing <= now, now, -1.0) if self.overlap else now - computing
        return self.best(np.vstack([best[None], choices[keeps(self.lines, choices, allowed)]]))


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


def _by_deadlines(group: _Group, able: Flags) -> Flags:
    """Choices for deadlines from the shortest to the longest that may matter, then around the best of these; [K, n]."""
    lines = group.lines
    with np.errstate(divide="ignore"):
        single = np.concatenate([1.0 / lines.download, 1.0 / lines.upload[able], round_seconds(lines, able[None])])
    times = np.sort(single[np.isfinite(single)])
    if not len(times):
        return able[None]
    least, most = float(times[0]), float(times[-1])
    found, shortest, number = able[None], np.inf, DEADLINES[len(able) <= SMALL]
    for _ in range(REFINEMENTS):
        between = times[(times >= least) & (times <= most)]
        if len(between):  # when a peer's own bound falls away
            between = between[np.linspace(0, len(between) - 1, number).astype(int)]
        fractions = np.arange(number + 1.0) / number
        even = least + (most - least) * fractions**3
        deadlines = np.unique(np.concatenate([between, even]))
        choices = [_keeping(deadline, lines, group.speeds) for deadline in deadlines]
        of = np.repeat(np.arange(len(deadlines)), [len(some) for some in choices])
        tried = np.vstack(choices)
        seconds = group.seconds(tried)
        found = np.vstack([found, tried])
        if seconds.min() > (1.0 - WORTH_REFINING) * shortest:
            break
        shortest, place = seconds.min(), int(of[np.argmin(seconds)])
        least, most = float(deadlines[max(place - 1, 0)]), float(deadlines[min(place + 1, len(deadlines) - 1)])
    return found


def _keeping(deadline: float, lines: Lines, speeds: Floats) -> Flags:
    """Large choices that keep a deadline, if any do: each for an order in which peers stop training; [K, n]."""
    trains = (speeds > 0.0) & (lines.upload * deadline >= 1.0)
    if not trains.any():
        return _fastest(speeds)[None]
    kept = [_first_to_keep(deadline, lines, trains, speeds)]
    number = float(trains.sum())
    for _ in range(GUESSES):
        freed, relief = _gains(lines, deadline, number)
        kept.append(_first_to_keep(deadline, lines, trains, speeds / np.maximum(freed + relief, SAME)))
        number = float(kept[-1].sum())
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
        numbers = np.unique(np.linspace(fewest, most - 1, PROBES[len(trains) <= SMALL]).astype(int))
        kept = keeps(lines, rank >= numbers[:, None], np.full(len(numbers), deadline))
        first = int(np.argmax(kept)) if kept.any() else len(numbers)
        fewest = int(numbers[first - 1]) + 1 if first else fewest
        most = int(numbers[first]) if first < len(numbers) else most
    return rank >= fewest


def _fastest(speeds: Floats) -> Flags:
    return np.arange(len(speeds)) == np.argmax(speeds)


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
