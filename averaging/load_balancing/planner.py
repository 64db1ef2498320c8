"""The plan of a round on the log: what members have said of themselves becomes parts, and roles for the next step."""

import statistics
from collections.abc import Sequence
from itertools import accumulate

from averaging.bandwidth import MEGABIT
from averaging.load_balancing.plan import GlobalStep, Node, make_plan
from averaging.protocol.messages import Assignment
from averaging.protocol.rounds.parts import MemberProfile, Planned, equal_parts

FASTER = 16.0  # than the usual peer: what is believed of a processor
FEWEST = 2  # trainers, if so many can: peers that bring nothing have no vote, and one voter alone may be gone at once


def plan_round(step: GlobalStep, chunks: int, members: Sequence[MemberProfile]) -> Planned:
    """The best parts for those that send gradients, and the best trainers for the next step; see `plan.py`.

    While most lines are not known, parts are equal and all train.

    Args:
        step: what all peers do together.
        chunks: of the vector.
        members: of a round; at least one is reachable.
    """
    peers = _peers(members)
    if peers is None:
        return equal_parts(chunks, members)
    parts = runs(make_plan(peers, step, [one.sends for one in members]).parts, members)
    if not any(one.speed for one in members):
        return Planned(parts)
    plan = make_plan(peers, step)
    roles = list(zip(members, plan.roles, strict=True))
    resting = [one for one, role in roles if one.speed and one.bandwidth is not None and not role.trains]
    needed = max(0, FEWEST - sum(role.trains for _, role in roles))
    resting.sort(key=lambda one: -one.carries)  # the fattest lines hold up the others least
    return Planned(parts, tuple(one.session for one in resting[needed:]), plan.step_seconds)


def _peers(members: Sequence[MemberProfile]) -> list[Node] | None:
    """As plans see them; one of whose line or processor nothing is known counts as a usual peer.

    None: of most lines nothing is known.
    """
    known = [one.bandwidth for one in members if one.bandwidth and one.bandwidth.upload and one.bandwidth.download]
    if 2 * len(known) <= len(members):
        return None
    usual_up = statistics.median_low(one.upload for one in known)
    usual_down = statistics.median_low(one.download for one in known)
    usual_speed = statistics.median_low([one.speed for one in members if one.speed] or [1.0])
    return [
        Node(
            samples_per_second=min(one.speed or one.sends * usual_speed, FASTER * usual_speed),
            upload=((one.bandwidth and one.bandwidth.upload) or usual_up) * MEGABIT,
            download=((one.bandwidth and one.bandwidth.download) or usual_down) * MEGABIT,
            client_mode=not one.reachable,
            trained=not one.rests,
        )
        for one in members
    ]


def runs(sizes: Sequence[int], members: Sequence[MemberProfile]) -> tuple[Assignment, ...]:
    """So many chunks for each member, one run after the other."""
    return tuple(
        Assignment(end - size, size, one.session, attempt=0)
        for one, size, end in zip(members, sizes, accumulate(sizes), strict=True)
        if size
    )


def explanation(*, trains: bool, share: float, upload: float | None) -> str:
    """What the peer does from now on, and why, in a sentence.

    Args:
        share: of the averaging that it does.
        upload: of its line, in Mbit/s; None: it is not known.
    """
    line = "your line" if upload is None else f"your line ({upload:.3g} Mbit/s up)"
    if trains and share:
        return f"This computer computes gradients again, and does {share:.0%} of the averaging."
    if trains:
        return "This computer computes gradients again; others average them."
    if share:
        return f"Now {line} outweighs your processor: this computer only averages, {share:.0%} of all."
    return f"Now {line} is too slow: all would wait for your gradients, so this computer only follows the model."
