"""How many experts a machine takes."""

from pathlib import Path

import pytest

from app.hosting.capacity import Room, capacity, measure, states_folder
from app.join.machine_checks import DISK, PROGRAM
from app.join.problems import ProblemKind
from experts.directory.records import MOST_EXPERTS
from experts.host.settings import ExpertSettings
from experts.host.state import longest_state
from tests.support.problems import raises_problem

SETTINGS = ExpertSettings(grid=(8, 8), width=256, hidden=1024)  # 8.4 MB of memory, 6.3 MB of disk each
PLENTY = 1e12  # bytes


@pytest.mark.parametrize(
    ("memory", "disk", "asked", "taken"),
    [
        (PLENTY, PLENTY, None, 64),
        (PLENTY, PLENTY, 5, 5),
        (PLENTY, PLENTY, 100, 64),
        (PROGRAM + 170e6, PLENTY, None, 10),
        (PROGRAM + 170e6, PLENTY, 19, 19),
        (PROGRAM + 70 * 8.5e6, PLENTY, 100, 64),
        (PLENTY, DISK + 64e6, None, 10),
        (PROGRAM + 9e6, PLENTY, None, 1),
    ],
)
def test_a_machine_takes_what_fits_well_or_what_its_owner_says(
    memory: float, disk: float, asked: int | None, taken: int
):
    assert capacity(SETTINGS, Room(memory, disk), asked) == taken


def test_no_more_than_a_record_holds():
    large = ExpertSettings(grid=(64, 64), width=8, hidden=8)
    assert capacity(large, Room(PLENTY, PLENTY), None) == MOST_EXPERTS


def test_what_a_host_has_written_itself_is_room_for_the_same_experts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Started again, it takes as many as before: its files are replaced."""
    of_file = longest_state(SETTINGS)
    free = {"disk": DISK + 10 * of_file}
    monkeypatch.setattr("app.hosting.capacity.disk_free", lambda folder: free["disk"])
    folder = states_folder(tmp_path / "run", b"authority")
    before = measure(tmp_path, folder)
    folder.mkdir(parents=True)
    for number in range(10):
        with (folder / f"0.{number}.safetensors").open("wb") as file:
            file.truncate(of_file)
    free["disk"] = DISK
    again = measure(tmp_path, folder)
    anew = measure(tmp_path, states_folder(tmp_path / "run", b"authority of a run that was begun anew"))
    assert anew.disk == DISK
    assert before.disk == again.disk
    assert capacity(SETTINGS, Room(PLENTY, again.disk), None) == 10


@pytest.mark.parametrize(
    ("memory", "disk", "asked", "way_out"),
    [
        (PROGRAM, PLENTY, None, "machine with more"),
        (PLENTY, DISK, None, "machine with more"),
        (PROGRAM + 170e6, PLENTY, 40, "--experts 20"),
    ],
)
def test_what_does_not_fit_is_refused(memory: float, disk: float, asked: int | None, way_out: str):
    with raises_problem(ProblemKind.MACHINE_TOO_SMALL, match=way_out):
        capacity(SETTINGS, Room(memory, disk), asked)
