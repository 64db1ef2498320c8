"""States of experts beside checkpoints: collected in a thread, whole or absent, whatever happens meanwhile."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from averaging.transport.loop import LoopEnded
from coordinator.checkpoints.checksums import check_sums, read_sums, write_sums
from coordinator.expert_states import ExpertStates
from experts import file_names
from experts.directory.assignment import Holdings
from experts.directory.records import LIFETIME
from experts.host.files import StateFiles
from experts.host.settings import ExpertSettings
from experts.host.state import to_bytes
from experts.host.trained_expert import TrainedExpert
from experts.released import steps_of
from experts.versions import rollbacks, rolled_back, steps_taken
from swarm import clock
from swarm.errors import StorageError
from tests.support.waiting import PATIENCE, wait_until

SETTINGS = ExpertSettings(grid=(2, 2), width=4, hidden=4)
A, B, C = (0, 0), (0, 1), (1, 0)


class Kept:
    """What is tested, a network that is slow until it is let go, and what was said."""

    def __init__(self, folder: Path):
        self.folder, self.said = folder, list[str]()
        self.files = StateFiles(folder / "experts", SETTINGS)
        self.goes_on, self.collections, self.missing = threading.Event(), 0, dict[tuple[int, ...], str]()
        self.error: Exception | None = None
        self.closed, self.now = False, 1e9
        self.hosts: Any = [SimpleNamespace(holdings=Holdings("host"))]
        collection: Any = SimpleNamespace(files=self.files)
        self.states = ExpertStates(
            SETTINGS, collection, self._collect, self._close, self.said.append, folder / "experts", lambda: self.hosts
        )
        self.states.start()

    def learns(self, uid: tuple[int, ...], steps: int) -> None:
        self.files.write(uid, steps, to_bytes(TrainedExpert(uid, SETTINGS, steps)))

    def checkpoint(self, step: int) -> Path:
        path = self.folder / "checkpoints" / f"checkpoint-{step}"
        path.mkdir(parents=True)
        (path / "model.safetensors").write_bytes(b"model")
        write_sums(path)
        return path

    def _collect(self) -> dict[tuple[int, ...], str]:
        self.collections += 1
        assert self.goes_on.wait(PATIENCE)
        if self.error is not None:
            raise self.error
        return self.missing

    def _close(self) -> None:
        self.closed, self.error = True, LoopEnded()
        self.goes_on.set()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path)
    yield kept
    kept.states.finish()


def test_a_checkpoint_gets_the_states_when_they_have_come_and_is_pending_until_then(kept: Kept):
    path = kept.checkpoint(100)
    kept.states.collect_for(path)
    wait_until(lambda: kept.collections, "collection")
    assert kept.states.pending == {path}
    assert not (path / file_names.EXPERTS).exists()
    kept.learns(A, 3)
    kept.learns(B, 4)
    kept.goes_on.set()
    wait_until(lambda: not kept.states.pending, "file")
    assert steps_of(path / file_names.EXPERTS) == {A: 3, B: 4}
    assert read_sums(path).keys() == {"model.safetensors", file_names.EXPERTS}
    check_sums(path)
    assert any("2 experts" in line for line in kept.said)
    assert not [one for one in (kept.folder / "experts").iterdir() if one.name.startswith(".")]


def test_a_checkpoint_that_was_removed_meanwhile_stays_removed(kept: Kept):
    kept.learns(A, 3)
    path = kept.checkpoint(100)
    kept.states.collect_for(path)
    wait_until(lambda: kept.collections, "collection")
    shutil.rmtree(path)
    kept.goes_on.set()
    wait_until(lambda: not kept.states.pending, "end of it")
    assert not path.exists()
    assert not kept.said


@pytest.mark.parametrize(
    ("trouble", "told"), [(StorageError("the disk is full"), "disk is full"), (TimeoutError(), "TimeoutError")]
)
def test_when_states_do_not_come_the_older_ones_are_written_and_that_is_told(kept: Kept, trouble: Exception, told: str):
    kept.learns(A, 3)
    kept.error = trouble
    kept.goes_on.set()
    path = kept.checkpoint(100)
    kept.states.collect_for(path)
    wait_until(lambda: not kept.states.pending, "file")
    assert steps_of(path / file_names.EXPERTS) == {A: 3}
    assert told in kept.said[0]


def test_missing_states_are_told(kept: Kept):
    kept.missing = {A: "12D3KooW", B: "12D3KooX"}
    kept.goes_on.set()
    kept.states.collect_for(kept.checkpoint(100))
    wait_until(lambda: not kept.states.pending, "end of it")
    assert "2 experts did not arrive (0.0 of 12D3KooW, 0.1 of 12D3KooX)" in kept.said[0]


def test_checkpoints_that_wait_share_a_collection(kept: Kept):
    kept.learns(A, 3)
    paths = [kept.checkpoint(step) for step in (100, 200, 300)]
    kept.states.collect_for(paths[0])
    wait_until(lambda: kept.collections, "collection")
    for path in paths[1:]:
        kept.states.collect_for(path)
    kept.goes_on.set()
    wait_until(lambda: not kept.states.pending, "files")
    assert all(steps_of(path / file_names.EXPERTS) == {A: 3} for path in paths)
    assert kept.collections == 2


def test_the_end_waits_for_no_network_and_the_last_checkpoint_has_what_is_there(kept: Kept):
    kept.learns(A, 3)
    first, last = kept.checkpoint(100), kept.checkpoint(200)
    kept.states.collect_for(first)
    wait_until(lambda: kept.collections, "collection")
    kept.states.collect_for(last)
    kept.states.finish()
    assert kept.closed
    assert steps_of(first / file_names.EXPERTS) == steps_of(last / file_names.EXPERTS) == {A: 3}
    assert not any("problem" in line for line in kept.said)


def test_when_the_run_goes_back_states_of_the_older_checkpoint_are_the_newest_and_in_the_next_one(kept: Kept):
    kept.goes_on.set()
    kept.learns(A, 3)
    older, later, restored = kept.checkpoint(100), kept.checkpoint(200), kept.checkpoint(300)
    kept.states.collect_for(older)
    wait_until(lambda: not kept.states.pending, "file")
    kept.learns(A, 8)
    kept.learns(B, 2)
    kept.states.collect_for(later)
    kept.states.roll_back(older)
    kept.states.collect_for(restored)
    kept.states.follow_rollback()
    wait_until(lambda: not kept.states.pending, "files")
    found = steps_of(restored / file_names.EXPERTS)
    assert {uid: steps_taken(version) for uid, version in found.items()} == {A: 3, B: 0}
    assert any("2 experts go back" in line for line in kept.said)
    kept.learns(A, 9)  # of a host that has not asked yet
    assert kept.files.versions == found


@pytest.mark.parametrize("has_file", [False, None])
def test_experts_stay_when_it_is_not_known_what_they_were(kept: Kept, has_file: bool | None):
    kept.learns(A, 3)
    kept.goes_on.set()
    kept.states.roll_back(kept.checkpoint(100) if has_file is False else None)
    kept.states.collect_for(restored := kept.checkpoint(200))
    kept.states.follow_rollback()
    assert kept.files.versions == {A: 3}
    assert "stay as they are" in kept.said[0]
    wait_until((restored / file_names.EXPERTS).exists, "file of the next checkpoint")


def test_a_checkpoint_to_which_the_run_goes_back_does_not_get_later_states(kept: Kept):
    path = kept.checkpoint(100)
    kept.states.collect_for(path)
    wait_until(lambda: kept.collections, "collection")
    kept.states.roll_back(path)
    kept.states.follow_rollback()
    assert not kept.states.pending
    kept.learns(A, 3)
    kept.goes_on.set()
    kept.states.collect_for(later := kept.checkpoint(200))
    wait_until(lambda: not kept.states.pending, "file")
    assert (later / file_names.EXPERTS).exists() and not (path / file_names.EXPERTS).exists()


@pytest.fixture
def going_back(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> Kept:
    """The run goes back to a checkpoint with A and B; meanwhile A, B and C have learned, and C was never collected."""
    kept.goes_on.set()
    kept.learns(A, 3)
    kept.learns(B, 2)
    older, restored = kept.checkpoint(100), kept.checkpoint(200)
    kept.states.collect_for(older)
    wait_until(lambda: not kept.states.pending, "file")
    kept.learns(A, 8)
    kept.learns(B, 9)
    kept.hosts = [SimpleNamespace(holdings=Holdings("host", serves={A: 8, B: 9, C: 5}))]
    monkeypatch.setattr(clock, "now", lambda: kept.now)
    kept.states.roll_back(older)
    kept.states.collect_for(restored)
    return kept


def went_back(kept: Kept) -> dict[tuple[int, ...], tuple[int, int]]:
    return {uid: (rollbacks(version), steps_taken(version)) for uid, version in kept.files.versions.items()}


def test_a_rollback_that_the_disk_interrupts_goes_on_where_it_was(going_back: Kept, monkeypatch: pytest.MonkeyPatch):
    write = going_back.files.write
    with monkeypatch.context() as context:

        def full(uid: tuple[int, ...], version: int, state: bytes) -> bool:
            if uid == B:
                raise StorageError("the disk is full")
            return write(uid, version, state)

        context.setattr(going_back.files, "write", full)
        for _ in range(3):
            with pytest.raises(StorageError):
                going_back.states.follow_rollback()
    assert went_back(going_back) == {A: (1, 3), B: (0, 9)}
    going_back.learns(A, rolled_back(3, newest=8) + 1)
    assert going_back.states.pending, "or the checkpoint would have states of both"
    going_back.states.follow_rollback()
    assert went_back(going_back) == {A: (1, 4), B: (1, 2), C: (1, 0)}
    wait_until(lambda: not going_back.states.pending, "file")
    going_back.states.follow_rollback()
    assert went_back(going_back) == {A: (1, 4), B: (1, 2), C: (1, 0)}, "once"


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_rollback_waits_for_the_dht_to_name_hosts_for_as_long_as_one_is_listed(going_back: Kept, comes_back: bool):
    hosts, going_back.hosts = going_back.hosts, []
    going_back.now += LIFETIME - 1.0
    going_back.states.follow_rollback()
    assert went_back(going_back) == {A: (0, 8), B: (0, 9)}
    going_back.hosts = hosts if comes_back else []
    going_back.now += 2.0
    going_back.states.follow_rollback()
    expected = {A: (1, 3), B: (1, 2)}
    assert went_back(going_back) == (expected | {C: (1, 0)} if comes_back else expected)


def test_a_checkpoint_that_is_collected_for_when_the_run_goes_back_waits_as_well(kept: Kept):
    kept.goes_on.set()
    kept.learns(A, 3)
    older, later = kept.checkpoint(100), kept.checkpoint(200)
    kept.states.collect_for(older)
    wait_until(lambda: not kept.states.pending, "file")
    kept.goes_on.clear()
    kept.states.collect_for(later)
    wait_until(lambda: kept.collections == 2, "collection")
    kept.learns(A, 8)
    kept.states.roll_back(older)
    kept.goes_on.set()
    wait_until(lambda: kept.states._held or not kept.states.pending, "end of the collection")
    assert kept.states.pending == {later}
    assert not (later / file_names.EXPERTS).exists()
    kept.states.follow_rollback()
    wait_until(lambda: not kept.states.pending, "file")
    assert steps_of(later / file_names.EXPERTS) == kept.files.versions == {A: rolled_back(3, newest=8)}


def test_a_rollback_under_way_is_done_when_the_coordinator_stops(going_back: Kept):
    going_back.hosts = []
    going_back.states.follow_rollback()
    going_back.states.finish()
    assert went_back(going_back) == {A: (1, 3), B: (1, 2)}
    assert not going_back.states.pending


def test_a_rollback_that_cannot_be_done_when_the_coordinator_stops_is_told(
    going_back: Kept, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as context:
        context.setattr(going_back.files, "write", Mock(side_effect=StorageError("the disk is full")))
        going_back.states.finish()
    assert any(
        "the disk is full, so experts go back when the coordinator is started" in line for line in going_back.said
    )


def test_a_rollback_that_a_killed_coordinator_had_begun_goes_on_when_it_is_started_again(going_back: Kept):
    going_back.hosts = []
    older = going_back.folder / "checkpoints" / "checkpoint-100"
    earlier = shutil.copytree(older, older.with_name("checkpoint-150"))
    (earlier / file_names.EXPERTS).unlink()
    going_back.states.roll_back(earlier)
    going_back.states.follow_rollback()
    going_back.states.roll_back(older)  # and in the next moment the coordinator is killed
    assert went_back(going_back) == {A: (0, 8), B: (0, 9)}
    again = Kept(going_back.folder)
    again.files.load()
    again.goes_on.set()
    again.states.resume_rollback(going_back.folder / "checkpoints")
    again.states.begin_with(restored := going_back.folder / "checkpoints" / "checkpoint-200")
    again.states.follow_rollback()
    wait_until(lambda: not again.states.pending, "file")
    assert went_back(again) == {A: (1, 3), B: (1, 2)}
    assert steps_of(restored / file_names.EXPERTS) == again.files.versions
    again.states.resume_rollback(going_back.folder / "checkpoints")
    again.states.follow_rollback()
    assert went_back(again) == {A: (1, 3), B: (1, 2)}, "once"
    again.states.finish()
    going_back.states.finish()
