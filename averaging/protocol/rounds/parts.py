"""Who reduces which chunks of the vector, and who computes gradients next.

The process may give a peer another planner: DeDLOC's looks at lines and processors (`averaging/load_balancing/`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from averaging.protocol.messages import Assignment, Bandwidth

MOST_PARTS = 4  # that are equal: where nothing is known of lines, a thin one among them would hold up all others


@dataclass(frozen=True)
class Line:
    """What a planner knows of a member."""

    session: str
    sends: bool  # has gradients
    reachable: bool  # accepts connections, as a reducer has to
    bandwidth: Bandwidth | None  # None: not measured
    speed: float = 0.0  # samples a second that it computes, or would; 0: it cannot, or it is not known
    rests: bool = False  # computes no gradients, as it was told

    @property
    def carries(self) -> float:
        """Mbit/s, in the narrower direction; 0 if that is not known."""
        return min(self.bandwidth.upload, self.bandwidth.download) if self.bandwidth is not None else 0.0


@dataclass(frozen=True)
class Planned:
    """A planner's answer."""

    parts: tuple[Assignment, ...]
    resting: tuple[str, ...] = ()  # sessions that are to compute no gradients from now on
    step_seconds: float = 0.0  # that the next global step takes then


Planner: TypeAlias = Callable[[int, Sequence[Line]], Planned]  # of so many chunks; reachable members reduce


def equal_parts(chunks: int, members: Sequence[Line]) -> Planned:
    """Runs of chunks of nearly the same length, for the first of the reachable members; all members train."""
    reducers = [line.session for line in members if line.reachable][:MOST_PARTS]
    count = min(chunks, len(reducers))
    bounds = [chunks * index // count for index in range(count + 1)]
    return Planned(
        tuple(
            Assignment(first, following - first, reducer, attempt=0)
            for first, following, reducer in zip(bounds, bounds[1:], reducers, strict=False)
        )
    )


def checked(parts: Sequence[Assignment], chunks: int, members: Sequence[Line]) -> tuple[Assignment, ...]:
    """Parts as a planner has dealt them out.

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
