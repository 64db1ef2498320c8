"""Who reduces what: equal parts, or what the process plans."""

import pytest

from averaging.protocol.messages import Assignment, Bandwidth
from averaging.protocol.parts import MOST_PARTS, Line, checked, equal_parts, parts_by_line

LINES = [Line(f"p{index}", True, index != 1, Bandwidth(10.0 * index, 100.0)) for index in range(7)]


@pytest.mark.parametrize("chunks", [1, 3, 10])
def test_reachable_members_get_equal_runs_of_chunks(chunks: int) -> None:
    parts = equal_parts(chunks, LINES)
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


def line(session: str, speed: float | None, *, reachable: bool = True) -> Line:
    """With as much upload as download."""
    return Line(session, True, reachable, None if speed is None else Bandwidth(speed, speed))


@pytest.mark.parametrize("chunks", [1, 2, 3, 10, 138])
def test_parts_are_as_large_as_lines_are_fat_and_thin_lines_have_none(chunks: int) -> None:
    lines = [line("thin", 10.0), line("fat", 200.0), line("fatter", 400.0), line("hidden", 900.0, reachable=False)]
    parts = parts_by_line(chunks, lines)
    assert checked(parts, chunks, lines) == parts
    counts = {part.reducer: part.count for part in parts}
    assert counts.keys() <= {"fat", "fatter"}
    assert abs(counts["fatter"] - 2 / 3 * chunks) <= 1


def test_what_counts_of_a_line_is_its_narrower_direction() -> None:
    lines = [Line("dsl", True, True, Bandwidth(10.0, 500.0)), line("fat", 100.0)]
    assert {part.reducer for part in parts_by_line(10, lines)} == {"fat"}


def test_a_line_that_was_not_measured_is_taken_for_a_usual_one() -> None:
    lines = [line("new", None), line("fat", 100.0), line("other", 100.0)]
    assert {part.count for part in parts_by_line(9, lines)} == {3}
    unknown = [line(str(number), None) for number in range(6)]
    assert parts_by_line(9, unknown) == equal_parts(9, unknown)
    dead = [line("a", 0.0), line("b", 0.0)]
    assert parts_by_line(9, dead) == equal_parts(9, dead)


def test_there_are_few_parts_and_each_has_a_chunk() -> None:
    lines = [line(str(speed), float(speed)) for speed in (100, 90, 80, 70, 60, 50)]
    assert [part.reducer for part in parts_by_line(50, lines)] == ["100", "90", "80", "70"]
    assert [part.count for part in parts_by_line(4, lines)] == [1, 1, 1, 1]
