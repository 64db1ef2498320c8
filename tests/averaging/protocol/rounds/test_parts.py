"""Who reduces what: equal parts, or what the process plans."""

import pytest

from averaging.protocol.messages import Assignment, Bandwidth
from averaging.protocol.rounds.parts import MOST_PARTS, MemberProfile, checked, equal_parts

LINES = [MemberProfile(f"p{index}", True, index != 1, Bandwidth(10.0 * index, 100.0)) for index in range(7)]


@pytest.mark.parametrize("chunks", [1, 3, 10])
def test_reachable_members_get_equal_runs_of_chunks(chunks: int) -> None:
    parts = equal_parts(chunks, LINES).parts
    assert [part.reducer for part in parts] == ["p0", "p2", "p3", "p4"][:chunks]
    assert len(parts) == min(chunks, MOST_PARTS)
    assert max(part.count for part in parts) - min(part.count for part in parts) <= 1
    assert checked(parts, chunks, LINES) == parts


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [Assignment(0, 2, "p0", 0)],
        [Assignment(1, 2, "p0", 0)],
        [Assignment(0, 2, "p0", 0), Assignment(1, 2, "p2", 0)],
        [Assignment(0, 0, "p0", 0), Assignment(0, 3, "p2", 0)],
        [Assignment(0, 4, "p0", 0)],
        [Assignment(0, 3, "p1", 0)],
        [Assignment(0, 3, "stranger", 0)],
    ],
)
def test_a_plan_that_cannot_work_is_refused(parts: list[Assignment]) -> None:
    with pytest.raises(ValueError, match="a plan"):
        checked(parts, 3, LINES)
