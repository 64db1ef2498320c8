"""Who reduces which chunks of the vector.

The process may give a peer another planner: DeDLOC's looks at the lines of the members.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from averaging.protocol.messages import Assignment, Bandwidth

MOST_PARTS = 4  # each member talks to all reducers
THIN = 0.25  # of the fattest line; thinner ones own no part, since all members' pieces of it would pass through them


@dataclass(frozen=True)
class Line:
    """What a planner knows of a member."""

    session: str
    sends: bool  # has gradients
    reachable: bool  # accepts connections, as a reducer has to
    bandwidth: Bandwidth | None  # None: not measured


Planner: TypeAlias = Callable[[int, Sequence[Line]], Sequence[Assignment]]  # of so many chunks, with reachable reducers


def equal_parts(chunks: int, members: Sequence[Line]) -> tuple[Assignment, ...]:
    """Runs of chunks of nearly the same length, for the first of the reachable members."""
    reducers = [line.session for line in members if line.reachable][:MOST_PARTS]
    count = min(chunks, len(reducers))
    bounds = [chunks * index // count for index in range(count + 1)]
    return tuple(
        Assignment(first, following - first, reducer, attempt=0)
        for first, following, reducer in zip(bounds, bounds[1:], reducers, strict=False)
    )


def parts_by_line(chunks: int, members: Sequence[Line]) -> tuple[Assignment, ...]:
    """Runs of chunks in proportion to what the reachable members' lines carry, both ways; thin ones own none.

    A line that was not measured counts as the median of those that were.
    """
    reachable = [line for line in members if line.reachable]
    known = [min(one.bandwidth.upload, one.bandwidth.download) for one in reachable if one.bandwidth is not None]
    if not any(known):
        return equal_parts(chunks, members)
    usual = statistics.median(known)
    speeds = [
        usual if one.bandwidth is None else min(one.bandwidth.upload, one.bandwidth.download) for one in reachable
    ]
    fattest = sorted(zip(speeds, reachable, strict=True), key=lambda one: -one[0])[:MOST_PARTS]
    reducers = [(speed, line.session) for speed, line in fattest if speed >= THIN * fattest[0][0]][:chunks]
    total, before, first, parts = sum(speed for speed, _ in reducers), 0.0, 0, []
    for left, (speed, session) in zip(range(len(reducers) - 1, -1, -1), reducers, strict=True):
        before += speed
        following = min(max(round(chunks * before / total), first + 1), chunks - left)
        parts.append(Assignment(first, following - first, session, attempt=0))
        first = following
    return tuple(parts)


def checked(parts: Sequence[Assignment], chunks: int, members: Sequence[Line]) -> tuple[Assignment, ...]:
    """A planner's answer.

    Raises:
        ValueError: it does not cover all chunks once, in their order, or names a reducer that nobody reaches.
    """
    following = [*(part.first for part in parts[1:]), chunks]
    covers = bool(parts) and parts[0].first == 0 and all(part.count > 0 for part in parts)
    if not covers or any(part.first + part.count != first for part, first in zip(parts, following, strict=True)):
        raise ValueError(f"a plan of parts that are not the {chunks} chunks in their order: {parts}")
    strangers = {part.reducer for part in parts} - {line.session for line in members if line.reachable}
    if strangers:
        raise ValueError(f"a plan with reducers that are no reachable members: {sorted(strangers)}")
    return tuple(parts)
