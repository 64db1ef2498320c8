"""A run releases its checkpoints while it trains, and loses its disk: the Hub has what is needed."""

import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coordinator.checkpoints.checkpoint import list_checkpoints
from tests.support.hub.reader import read_from_hub
from tests.support.hub.stand_in import HubStandIn
from tests.support.hub.stand_in import hub_stand_in as hub_stand_in
from tests.support.small_swarm import SmallSwarm, newest_step_said, signal_group, text_of
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.swarm
REPO = "river/small"
STEP_SAMPLES = 2048  # some seconds of one trainer
TITLE = re.compile(r"Global step (\d+): (?:held-out loss [\d.]+.*|not evaluated)")
RELEASED = re.compile(r"global step (\d+): released")


def test_a_release_is_loaded_by_its_name_and_a_lost_disk_is_restored_from_it(
    small_swarm: Callable[..., SmallSwarm], tmp_path: Path, hub_stand_in: HubStandIn, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_TOKEN", hub_stand_in.add("asha", "river", role="write"))
    release: dict[str, Any] = {"repo": REPO, "every": 2, "milestones": 2, "license": "apache-2.0"}
    swarm = small_swarm(target_batch_size=STEP_SAMPLES, release=release)
    (coordinator,) = swarm.peers
    trainer = swarm.trainer("asha")
    swarm.wait(lambda: len(coordinator.said(RELEASED)) >= 2, "two releases")
    signal_group(trainer, signal.SIGINT)
    trainer.process.wait(PATIENCE)
    signal_group(coordinator, signal.SIGINT)
    assert coordinator.process.wait(PATIENCE) == 0, swarm.last_words()
    repository = hub_stand_in.repositories.by_name[REPO]
    titles = [TITLE.fullmatch(one.title) for one in repository.revisions[1:]]
    steps = [int(title[1]) for title in titles if title]
    assert len(steps) == len(titles) and set(map(int, coordinator.said(RELEASED))) <= set(steps) and repository.tags
    card = repository.head.files["README.md"].content.decode()
    assert "one person | 100.0%" in card and "loss.png" in card
    _load(tmp_path / "reader")

    released = steps[-1]
    swarm.ledger.close()
    shutil.rmtree(swarm.state)
    swarm.move_to(swarm.state, swarm.port)
    again = swarm.coordinator()
    swarm.wait(lambda: f"is open at global step {released} of" in text_of(again), "coordinator that is open again")
    assert [one.step for one in list_checkpoints(swarm.state / "checkpoints")] == [released]
    swarm.trainer("bela")
    swarm.wait(lambda: newest_step_said(again) > released, "global step after the one from the Hub")
    assert not any("Traceback" in text_of(peer) for peer in swarm.peers), swarm.last_words()


def _load(home: Path) -> None:
    """As anybody would, who knows the name and has no token."""
    program = (
        "from transformers import AutoModelForMaskedLM, AutoTokenizer\n"
        f"model = AutoModelForMaskedLM.from_pretrained('{REPO}')\n"
        f"tokenizer = AutoTokenizer.from_pretrained('{REPO}')\n"
        "assert model.config.vocab_size == len(tokenizer)"
    )
    read_from_hub(program, home)
