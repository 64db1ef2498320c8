"""From shares to whole parts: every element has one owner, and all members of a group agree on whom."""

from collections.abc import Sequence

UNIT = 10**9  # shares are rounded to this fraction, so that what differs in their last bits is the same part


def part_sizes(shares: Sequence[float], length: int, smallest: int = 0) -> tuple[int, ...]:
    """Elements for each peer, by the method of largest remainders in whole numbers; they add up to `length`.

    Peers that would get fewer than `smallest` elements get none, as long as somebody gets more.

    Args:
        shares: at least 0, in any unit.

    Raises:
        ValueError: no share is above zero.
    """
    units = [round(share * UNIT) for share in shares]
    if sum(units) <= 0:
        raise ValueError(f"nobody averages anything: shares {list(shares)}")
    worth_it = [unit if unit * length >= smallest * sum(units) else 0 for unit in units]
    if any(worth_it):
        units = worth_it
    whole = sum(units)
    sizes = [unit * length // whole for unit in units]
    remainders = [unit * length % whole for unit in units]
    for number in sorted(range(len(units)), key=lambda i: (-remainders[i], i))[: length - sum(sizes)]:
        sizes[number] += 1
    return tuple(sizes)
