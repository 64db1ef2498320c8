"""A peer's view of the grid, and how its searches for the first group of a global step go on."""

from types import SimpleNamespace
from typing import Any

import pytest

from swarm.run_file import AveragingSection
from trainer.averaging.moshpit.grid import Cell
from trainer.averaging.moshpit.rounds import GridControl
from trainer.averaging.moshpit.swarm_grid import PATIENCE, SwarmGrid


def peers(count: int) -> list[bytes]:
    return [bytes([number]) for number in range(count)]


def grid(count: int, size: int = 2, **settings: Any) -> SwarmGrid:
    """Of the first of so many peers."""
    section = AveragingSection(matchmaking_time=5.0, request_timeout=2.0, target_group_size=size, **settings)
    return SwarmGrid(section, peers(1)[0], lambda _: peers(count))


class Searches:
    """Takes down what searches are begun with; none of them finds anybody."""

    def __init__(self) -> None:
        self.begun: list[dict[str, Any]] = []

    def __call__(self, **kwargs: Any) -> Any:
        self.begun.append(kwargs)
        return SimpleNamespace(done=lambda: True, allow_allreduce=lambda: None)


def search(one: SwarmGrid, step: int = 3, **kwargs: Any) -> tuple[GridControl | None, dict[str, Any]]:
    """A search for the gradients' first group, and what it was begun with."""
    searches, averager = Searches(), Searches()
    control = one.schedule(averager, step, "gradients", searches, **kwargs)  # type: ignore[arg-type]
    return control, searches.begun[0] if searches.begun else {}


@pytest.mark.parametrize("count", [1, 2])
def test_peers_who_are_no_more_than_one_group_form_that(count: int):
    assert grid(count).begin(0, "gradients") is None
    assert search(grid(count)) == (None, {})


@pytest.mark.parametrize(
    ("count", "size", "settings", "rounds", "is_full"),
    [
        (8, 2, {}, 3, True),
        (9, 2, {}, 3, False),
        (16, 4, {}, 2, True),
        (8, 2, {"rounds_per_step": 2}, 2, True),
        (8, 2, {"rounds_per_step": 7}, 7, True),
    ],
)
def test_a_global_step_has_the_rounds_of_a_full_grid_or_those_of_the_run_file(
    count: int, size: int, settings: dict[str, int], rounds: int, is_full: bool
):
    beginning = grid(count, size, **settings).begin(0, "gradients")
    assert beginning is not None
    assert (beginning.rounds, beginning.is_full, beginning.cell.round) == (rounds, is_full, 0)


def test_a_search_is_at_the_peers_cell_and_wants_most_of_those_who_are_there():
    control, begun = search(grid(8), quorum=True, weight=3.0, timeout=99.0)
    assert control is not None and control.step == 3
    cell = begun.pop("cell")
    assert isinstance(cell, Cell) and len(cell.key) == 2 and cell.full == 2
    assert begun == {"gather": 3, "seen": 2, "weight": 3.0, "timeout": PATIENCE * 5.0}
    assert search(grid(8))[1]["seen"] == 0  # any group will do for states


def test_who_finds_nobody_looks_where_others_may_be_and_then_begins_with_the_second_round():
    one = grid(12, size=4)  # four groups of three, or two of six
    control, begun = search(one)
    assert one.later_rounds(3) is None  # it may still find somebody
    assert one.has_missed(control, 3)
    later = one.later_rounds(3)
    assert later is not None and later.stage is later.stage.AWAITING_TRIGGER
    assert one.later_rounds(4) is None
    again = search(one)[1]
    assert {len(begun["cell"].key), len(again["cell"].key)} == {1, 2}
    one.forget_missed()
    assert one.later_rounds(3) is None


def test_a_search_is_missed_once():
    one = grid(12, size=4)
    control, begun = search(one)
    assert one.has_missed(control, 3) and one.has_missed(control, 3)
    assert len(search(one)[1]["cell"].key) != len(begun["cell"].key)


def test_a_search_that_is_none_or_another_steps_or_has_begun_to_average_is_not_missed():
    one = grid(8)
    control, _ = search(one)
    assert control is not None
    assert not one.has_missed(None, 3)
    assert not one.has_missed(control, 4)
    control.allow_allreduce()
    assert not one.has_missed(control, 3)
    assert one.later_rounds(3) is None
