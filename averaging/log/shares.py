"""How much of a mean is one user's, where a run bounds it: two devices of a user share one bound."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

MOST = Fraction(15, 100)  # of the weight of all members
PROBATION = Fraction(5, 100)  # of it, for users whose gradients may be useless
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
        on_probation: users who are capped at `PROBATION`; nobody is where those caps would leave nothing to count.
    """
    brought: Counter[str] = Counter()
    for user, weight in zip(users, weights, strict=True):
        brought[user] += weight
    usual = max(MOST, FEW / max(1, sum(weight > 0 for weight in brought.values())))
    bounds = {user: min(PROBATION, usual) if user in on_probation else usual for user in brought}
    if not (whole := _whole(brought, bounds)):
        bounds = dict.fromkeys(brought, usual)
        whole = _whole(brought, bounds)
    return [
        weight if brought[user] <= (most := bounds[user] * whole) else int(most * weight / brought[user])
        for user, weight in zip(users, weights, strict=True)
    ]


def _whole(brought: Mapping[str, int], bounds: Mapping[str, Fraction]) -> Fraction:
    """What all count with, of which each has its bound at most; 0 where the bounds leave nothing."""
    rest, cut = Fraction(sum(brought.values())), Fraction(0)
    for user in sorted(brought, key=lambda user: brought[user] / bounds[user], reverse=True):
        if cut < 1 and brought[user] <= bounds[user] * (whole := rest / (1 - cut)):
            return whole
        rest, cut = rest - brought[user], cut + bounds[user]
    return Fraction(0)
