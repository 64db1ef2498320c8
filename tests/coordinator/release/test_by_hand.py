"""`sahaj release`: what goes with a checkpoint that somebody releases by hand."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest.mock import Mock

import pytest

from app.join.problems import ProblemKind
from app.organizing.release_by_hand import publish_by_hand, release_by_hand
from coordinator.ledger.ledger import Ledger
from coordinator.release.hub import HubRepository, NotAllowed, ReleaseError
from coordinator.release.publish import Release
from coordinator.state_folder import UNNAMED, URL
from swarm.errors import SahajError
from tests.coordinator.release.conftest import REPO, MakeCheckpoint, repository
from tests.support.hub.stand_in import HubStandIn
from tests.support.problems import raises_problem

Prepare = Callable[..., Release]


def test_the_notebook_goes_with_a_release_by_hand_while_others_can_join(
    make_checkpoint: MakeCheckpoint, state_folder: Path
):
    path = make_checkpoint(100).path
    (state_folder / URL).write_text("http://127.0.0.1:8080\n")
    assert "join.ipynb" not in release_by_hand(path, REPO, [], None).files, "nobody else can use this link"
    (state_folder / URL).write_text("https://run.example.org\n")
    files = release_by_hand(path, REPO, [], None).files
    assert "https://run.example.org" in text_in(files, "join.ipynb") and "colab-badge" in text_in(files, "README.md")
    files = release_by_hand(path, REPO, [], None, "other.example.org").files
    assert "https://other.example.org" in text_in(files, "join.ipynb")
    with raises_problem(ProblemKind.BAD_URL, match="works on this machine only"):
        release_by_hand(path, REPO, [], None, "localhost:8080")
    last = release_by_hand(make_checkpoint(1000).path, REPO, [], None)
    assert "join.ipynb" not in last.files and "colab" not in text_in(last.files, "README.md"), "the run is over"


def test_that_there_is_no_ledger_for_the_card_is_said(make_checkpoint: MakeCheckpoint):
    said: list[str] = []
    files = release_by_hand(make_checkpoint(100).path, REPO, [], None, say=said.append).files
    assert "## Contributors" not in text_in(files, "README.md")
    assert len(said) == 1 and "no ledger here" in said[0] and "--ledger" in said[0]


def test_by_hand_a_tag_that_is_elsewhere_already_is_told(hub: HubStandIn, make_checkpoint: MakeCheckpoint):
    first, second = (release_by_hand(make_checkpoint(step).path, REPO, ["v1"], None) for step in (100, 200))
    assert "attention" not in publish_by_hand(first, REPO, private=False)
    there = repository(hub).head.oid
    told = publish_by_hand(second, REPO, private=False)
    assert f"attention: the tag v1 is at another commit ({there[:8]}) and stays there" in told
    assert repository(hub).head.oid != there == repository(hub).tags["v1"]
    with pytest.raises(NotAllowed, match="was to be private"):
        publish_by_hand(second, REPO, private=True)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ReleaseError("the Hub cannot be reached")])
def test_a_release_whose_tags_are_not_all_set_is_said_to_be_there(
    hub: HubStandIn, make_checkpoint: MakeCheckpoint, monkeypatch: pytest.MonkeyPatch, error: BaseException
):
    monkeypatch.setattr(HubRepository, "tag", Mock(side_effect=error))
    release = release_by_hand(make_checkpoint(100).path, REPO, ["v1"], None)
    with pytest.raises(SahajError, match=r"(stopped|reached); released \([0-9a-f]{8}\); tags may be missing") as told:
        publish_by_hand(release, REPO, private=False)
    assert repository(hub).head.oid[:8] in str(told.value)
    assert told.value.exit_status == (130 if isinstance(error, KeyboardInterrupt) else ReleaseError.exit_status)


def test_the_list_of_those_who_are_not_named_counts_for_a_copied_checkpoint_too(
    make_checkpoint: MakeCheckpoint, ledger: Ledger, state_folder: Path, tmp_path: Path
):
    copy = tmp_path / "copy" / "checkpoints" / "checkpoint-100"
    shutil.copytree(make_checkpoint(100).path, copy)
    where, said = f"sqlite:///{state_folder / 'ledger.db'}", list[str]()
    assert "asha" in text_in(release_by_hand(copy, REPO, [], where, say=said.append).files, "README.md")
    (state_folder / UNNAMED).write_text("asha\nashha\n")
    assert "asha" not in text_in(release_by_hand(copy, REPO, [], where, say=said.append).files, "README.md")
    assert len(said) == 1 and "ashha, and nobody of that name" in said[0]


def text_in(files: Mapping[str, Path | bytes], name: str) -> str:
    """What stands in a file that was made for the release."""
    content = files[name]
    assert isinstance(content, bytes)
    return content.decode()
