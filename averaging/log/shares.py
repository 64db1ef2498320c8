"""How much of a mean is one user's, where a run bounds it: two devices of a user share one bound."""

from collections import Counter
from collections.abc import Collection, Sequence
from fractions import Fraction

MOST = Fraction(15, 100)  # of the weight of all members
LOUDEST = 2.5  # times what its weight explains, that a gradient may be: honest ones differ by their text, and by slope
FEW = Fraction(3, 2)  # times an equal share, if that is more: few users cannot have so little each


def heard(loud: float) -> Fraction:
    """The part of a loud sender's weight that counts: the louder it is, the less it says."""
    return Fraction(1) if loud <= LOUDEST else Fraction(LOUDEST / loud) ** 2


def counted(users: Sequence[str], weights: Sequence[int], on_probation: Collection[str] = ()) -> list[int]:
    """What the members of a mean count with, so that nobody has more than the bound of what all count with.

    Whole numbers that are the same for everybody: a function of what a header says of its members.

    Args:
        users: of the members.
        weights: masked tokens that each has brought.
        on_probation: users whose weight counts as 0, unless that would leave no weight at all.
    """
    if any(weight for user, weight in zip(users, weights, strict=True) if user not in on_probation):
        weights = [0 if user in on_probation else weight for user, weight in zip(users, weights, strict=True)]
    brought: Counter[str] = Counter()
    for user, weight in zip(users, weights, strict=True):
        brought[user] += weight
    most = _most(sorted((weight for weight in brought.values() if weight), reverse=True))
    return [
        weight if brought[user] <= most else int(most * weight / brought[user])
        for user, weight in zip(users, weights, strict=True)
    ]


def _most(heaviest: Sequence[int]) -> Fraction:
    """What a user counts with at most: of the users' weights, the heaviest first, so many as needed are cut to it."""
    if not heaviest:
        return Fraction(0)
    share, rest = max(MOST, FEW / len(heaviest)), sum(heaviest)
    if share >= 1:
        return Fraction(rest)
    for cut, weight in enumerate(heaviest):
        most = share * rest / (1 - cut * share)
        if weight <= most:
            return most
        rest -= weight
    raise AssertionError("some user has no more than an equal share")
