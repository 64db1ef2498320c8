"""A run that begins with a trained model, which the coordinator alone has, and has once."""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from swarm.run_file import parse_run
from tests.support.small_swarm import SmallSwarm, run_content, text_of
from tests.support.waiting import PATIENCE
from tokenizer.loading import read_tokenizer
from trainer.model import build_model

pytestmark = pytest.mark.swarm
STEPS = 3  # each of which moves a tensor by a hundredth of its norm at most, as LAMB does


def test_peers_go_on_from_the_model_and_need_it_no_more(
    small_swarm: Callable[..., SmallSwarm], corpus: Path, tokenizer_folder: Path, tmp_path: Path
):
    content = run_content(corpus, target_batch_size=64, total_steps=10)
    run = parse_run({**content, "model": content["model"] | {"seed": 7}}, tmp_path / "old.yaml")
    shutil.copytree(tokenizer_folder, tmp_path / "old")
    build_model(run, read_tokenizer(str(tmp_path / "old"))).save_pretrained(tmp_path / "old")
    began = load_file(tmp_path / "old" / "model.safetensors")

    swarm = small_swarm(total_steps=STEPS, target_batch_size=512, model={"start_from": "old"})
    (coordinator,) = swarm.peers
    assert "The run begins with old" in text_of(coordinator)
    shutil.rmtree(tmp_path / "old")
    assert swarm.trainer("asha").process.wait(PATIENCE) == 0
    last = swarm.state / "checkpoints" / f"checkpoint-{STEPS}"
    swarm.wait(last.is_dir, "last checkpoint")
    ended = load_file(last / "model.safetensors")
    assert began.keys() == ended.keys()
    far = [name for name, one in began.items() if one.dim() > 1 and torch.dist(one, ended[name]) > 0.05 * one.norm()]
    assert not far, f"these did not begin with the model: {far}"

    coordinator.process.send_signal(signal.SIGINT)
    assert coordinator.process.wait(PATIENCE) == 0
    again = swarm.coordinator()
    assert "The run begins with" not in text_of(again)
    swarm.wait(lambda: f"open at global step {STEPS}" in text_of(again), "the run goes on")
