from pathlib import Path

import pytest

from coordinator.access.pause_orders import PauseOrders
from swarm.errors import StorageError, SwarmError


def test_orders_survive_a_restart(tmp_path: Path) -> None:
    orders = PauseOrders(tmp_path)
    orders.order("asha", ["laptop", "desktop"], paused=True)
    orders.order("asha", ["laptop"], paused=True)
    orders.order("~boat", ["laptop"], paused=True)
    for seen in (orders, PauseOrders(tmp_path)):
        assert seen.is_paused("asha", "laptop") and seen.is_paused("asha", "desktop")
        assert seen.is_paused("~boat", "laptop") and not seen.is_paused("~boat", "desktop")
        assert not seen.is_paused("~asha", "laptop"), "a self-chosen name is another one"
    orders.order("asha", ["desktop", "never paused"], paused=False)
    orders.order("~boat", ["laptop"], paused=False)
    orders.order("nobody", ["laptop"], paused=False)
    for seen in (orders, PauseOrders(tmp_path)):
        assert seen.is_paused("asha", "laptop") and not seen.is_paused("asha", "desktop")
        assert not seen.is_paused("~boat", "laptop")


def test_what_cannot_be_written_is_not_ordered(tmp_path: Path) -> None:
    folder = tmp_path / "a file"
    orders = PauseOrders(folder)
    folder.touch()
    with pytest.raises(StorageError):
        orders.order("asha", ["laptop"], paused=True)
    assert not orders.is_paused("asha", "laptop")


@pytest.mark.parametrize("content", ["", "{}", '{"paused": {"asha": "laptop"}}', "[1]"])
def test_a_file_of_something_else_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "pauses.json").write_text(content)
    with pytest.raises(SwarmError, match=r"pauses\.json: no orders to pause; restore the file, or remove it"):
        PauseOrders(tmp_path)
