"""Going on from the Hub when the disk is lost, and never over what is newer here."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.checkpoints.checkpoint import list_checkpoints
from coordinator.checkpoints.store import load_newest_checkpoint
from coordinator.initialization.initialize import keep_beginning
from coordinator.release.build import make_release
from coordinator.release.hub import HubRepository, ReleaseError
from coordinator.release.publish import publish
from coordinator.release.restore import restore_from_hub
from coordinator.state_folder import DOWNLOADS, RANDOM, SIGNS
from swarm.files import is_of_another_kind
from swarm.run_file import RunFile
from swarm.run_file.fingerprint import Fingerprint
from tests.coordinator.release.conftest import FINGERPRINT, REPO, MakeCheckpoint, repository
from tests.support.hub.repositories import File
from tests.support.hub.stand_in import HubStandIn


class Stated(Fingerprint):
    """A fingerprint with a chosen digest: the checkpoints here were never trained."""

    def __init__(self, digest: str):
        super().__init__(())
        self.__dict__["digest"] = digest  # where `cached_property` looks first


OURS, OTHERS = Stated(FINGERPRINT), Stated("f" * 16)
Restore = Callable[..., list[str]]


@pytest.fixture
def restore(run: RunFile, state_folder: Path) -> Restore:
    """Restore, and tell what was said."""

    def once(*, asked: bool = False, ours: Fingerprint = OURS, run: RunFile = run) -> list[str]:
        said: list[str] = []
        restore_from_hub(run, state_folder, ours, said.append, asked=asked)
        return said

    return once


@pytest.fixture
def released(hub: HubStandIn, run: RunFile, make_checkpoint: MakeCheckpoint, tmp_path: Path) -> Path:
    """A checkpoint of global step 100 that is at the Hub; it lies elsewhere than in the state folder."""
    checkpoint = make_checkpoint(100, folder=tmp_path / "lost")
    there = HubRepository(REPO)
    there.open()
    publish(there, make_release(run, checkpoint, REPO, record=None, also={}, tags=()))
    return checkpoint.path


@pytest.mark.parametrize("asked", [False, True])
def test_without_a_checkpoint_the_newest_release_becomes_one(
    restore: Restore, released: Path, state_folder: Path, asked: bool
):
    said = restore(asked=asked)
    restored = state_folder / "checkpoints" / "checkpoint-100"
    assert said[-1] == f"Going on from {REPO}: {restored}"
    assert {path.name: path.read_bytes() for path in restored.iterdir()} == {
        path.name: path.read_bytes() for path in released.iterdir()
    }
    loaded = load_newest_checkpoint(state_folder / "checkpoints")
    assert loaded is not None and loaded.trainer_state.step == 100
    assert loaded.optimizer_state["state"][0]["exp_avg"][0] == 100.0
    assert not (state_folder / DOWNLOADS).exists()


def test_what_the_run_began_with_is_known_after_a_restart_and_a_restore(
    restore: Restore, run: RunFile, hub: HubStandIn, make_checkpoint: MakeCheckpoint, state_folder: Path, tmp_path: Path
):
    keep_beginning(state_folder, as_asked=False)
    assert (state_folder / RANDOM).exists()
    assert not is_of_another_kind(state_folder, SIGNS), "or it could not be started again"
    keep_beginning(state_folder, as_asked=True)  # the start before has failed
    assert not (state_folder / RANDOM).exists()
    checkpoint = make_checkpoint(100, folder=tmp_path / "lost", random_embeddings=True)
    there = HubRepository(REPO)
    there.open()
    publish(there, make_release(run, checkpoint, REPO, record=None, also={}, tags=()))
    restore()
    assert (state_folder / RANDOM).exists()


def test_what_is_here_is_never_replaced_without_being_asked(
    restore: Restore, released: Path, make_checkpoint: MakeCheckpoint, hub: HubStandIn
):
    make_checkpoint(50)
    asked = len(hub.asked)
    assert restore() == [] and len(hub.asked) == asked


def test_what_is_newer_here_wins_even_if_asked(
    restore: Restore, released: Path, make_checkpoint: MakeCheckpoint, state_folder: Path
):
    make_checkpoint(150)
    assert restore(asked=True) == [f"The newest state is here: global step 150. {REPO} has global step 100."]
    assert [one.step for one in list_checkpoints(state_folder / "checkpoints")] == [150]


def test_what_is_older_here_stays_beside_what_was_asked_for(
    restore: Restore, released: Path, make_checkpoint: MakeCheckpoint, state_folder: Path
):
    make_checkpoint(50)
    restore(asked=True)
    assert [one.step for one in list_checkpoints(state_folder / "checkpoints")] == [50, 100]


def test_a_run_without_releases_begins_by_itself(restore: Restore, run: RunFile, hub: HubStandIn, state_folder: Path):
    assert restore(run=run.model_copy(update={"release": None})) == []
    assert restore() == []
    HubRepository(REPO).open()
    assert restore() == []
    assert list_checkpoints(state_folder / "checkpoints") == []


def test_who_asks_for_what_there_is_not_is_told(restore: Restore, run: RunFile, hub: HubStandIn):
    with pytest.raises(ReleaseError, match=r"names no repository; set release\.repo"):
        restore(asked=True, run=run.model_copy(update={"release": None}))
    with pytest.raises(ReleaseError, match=r"river/boats: there is no release to go on from"):
        restore(asked=True)
    hub.failing = 503
    with pytest.raises(ReleaseError, match=r"river/boats: the Hub is failing \(status 503\)"):
        restore(asked=True)
    (said,) = restore()
    assert said.startswith("attention: the Hub's release is not used (river/boats: the Hub is failing (status 503));")
    assert said.endswith("start with --from-hub")


def test_another_runs_release_is_not_taken(restore: Restore, run: RunFile, released: Path, state_folder: Path):
    with pytest.raises(ReleaseError, match=r"river/boats holds a release of a run of this name with other settings"):
        restore(asked=True, ours=OTHERS)
    (said,) = restore(run=run.model_copy(update={"name": "sea-run"}))
    assert "holds a release of run river-run" in said
    assert not (state_folder / "checkpoints").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "run.yaml"])
def test_a_damaged_release_is_refused_and_leaves_nothing(
    restore: Restore, released: Path, hub: HubStandIn, state_folder: Path, name: str
):
    there = repository(hub)
    whole = there.head.files[name]
    damaged = File(whole.content[:-1] + b"?", whole.large)
    there.commit("damaged", "", {name: damaged})
    hub.repositories.stored[damaged.sha256] = damaged.content
    with pytest.raises(ReleaseError, match=rf"global step 100 is damaged \(.*{name}"):
        restore()
    assert [path.name for path in state_folder.iterdir()] in ([], ["checkpoints"])
    there.commit("mended", "", {name: replace(whole)})
    restore()
    assert [one.step for one in list_checkpoints(state_folder / "checkpoints")] == [100]


def test_a_download_that_broke_off_goes_on(
    restore: Restore, released: Path, hub: HubStandIn, state_folder: Path, tmp_path: Path
):
    hub.repositories.troubles.extend([("GET /stored/", 500)] * 30)
    with pytest.raises(ReleaseError, match=r"river/boats: the Hub is failing \(status 500\)"):
        restore()
    assert list_checkpoints(state_folder / "checkpoints") == []
    assert not is_of_another_kind(state_folder, SIGNS), "or it could not be started again"
    hub.repositories.troubles.clear()
    fetched = len(hub.asked)
    restore()
    assert not any(path.endswith("/config.json") for path in hub.asked[fetched:]), "it was there already"
    shutil.rmtree(tmp_path / "lost")
    assert load_newest_checkpoint(state_folder / "checkpoints") is not None
