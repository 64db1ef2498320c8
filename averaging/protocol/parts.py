"""Who reduces which chunks of the vector."""

from collections.abc import Sequence

from averaging.protocol.messages import Assignment


def equal_parts(chunks: int, reducers: Sequence[str]) -> tuple[Assignment, ...]:
    """Runs of chunks of nearly the same length, one for each reducer that gets any."""
    count = min(chunks, len(reducers))
    bounds = [chunks * index // count for index in range(count + 1)]
    return tuple(
        Assignment(first, following - first, reducer, attempt=0)
        for first, following, reducer in zip(bounds, bounds[1:], reducers, strict=False)
    )
