import json
import logging
import os
import shutil
import signal
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from transformers import (
    AlbertForPreTraining,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)

from coordinator.checkpoints.checkpoint import (
    CheckpointError,
    list_checkpoints,
    newest_checkpoint,
    read_state,
)
from coordinator.checkpoints.checksums import write_sums
from coordinator.checkpoints.store import (
    load_checkpoint,
    load_newest_checkpoint,
    newest_that_fits,
    restore_model,
    save_checkpoint,
)
from swarm.errors import StorageError
from swarm.run_file import RunFile, load_run
from swarm.run_file.fingerprint import OPTIMIZER_VERSION, fingerprint
from tests.coordinator.checkpoints.conftest import STATE, Save
from tests.support.forked import start_function
from tests.swarm.disk_faults import small_disk
from tokenizer.loading import tokenizer_digest
from trainer.models.albert import AlbertPretraining

FILES = (
    "config.json",
    "model.safetensors",
    "optimizer.pt",
    "run.yaml",
    "tokenizer.json",
    "tokenizer_config.json",
    "trainer_state.json",
    "SHA256SUMS",
)


def test_a_state_of_another_optimizer_is_refused_by_name(
    tmp_path: Path, model: AlbertPretraining, tokenizer: PreTrainedTokenizerFast, run: RunFile
) -> None:
    ours, older = (fingerprint(run, tokenizer_digest(tokenizer), version) for version in (OPTIMIZER_VERSION, 1))
    save = partial(save_checkpoint, tmp_path, model=model, tokenizer=tokenizer, run=run)
    save(optimizer_state={}, state=replace(STATE, fingerprint=older.digest))
    with pytest.raises(CheckpointError, match=rf"\(optimizer\.version: {OPTIMIZER_VERSION} here, 1 there\)"):
        newest_that_fits(tmp_path, ours)
    save(optimizer_state={"version": OPTIMIZER_VERSION}, state=replace(STATE, step=2, fingerprint=ours.digest))
    assert newest_that_fits(tmp_path, ours) is not None
    newer = OPTIMIZER_VERSION + 1
    with pytest.raises(CheckpointError, match=rf"\(optimizer\.version: {newer} here, {OPTIMIZER_VERSION} there\)"):
        newest_that_fits(tmp_path, fingerprint(run, tokenizer_digest(tokenizer), newer))


def test_a_checkpoint_comes_back_as_it_was_saved(save: Save, model: AlbertPretraining) -> None:
    path = save(7)
    assert path.name == "checkpoint-7"
    loaded = load_checkpoint(path)
    assert loaded.trainer_state == replace(STATE, step=7)
    own = model.state_dict()
    assert loaded.model_state.keys() <= own.keys()
    assert all(torch.equal(tensor, own[name]) for name, tensor in loaded.model_state.items())
    moments = loaded.optimizer_state["state"]
    assert all(torch.isfinite(moments[number]["exp_avg"]).all() for number in moments)
    assert len(moments) == len(loaded.optimizer_state["param_groups"][0]["params"])


def test_the_run_file_in_a_checkpoint_is_a_run_file(save: Save, run: RunFile) -> None:
    assert load_run(save(1) / "run.yaml").model_dump() == run.model_dump()


def test_transformers_loads_a_checkpoint_and_all_of_it(
    save: Save, model: AlbertPretraining, tokenizer: PreTrainedTokenizerFast
) -> None:
    path = save(1)
    loaded, info = AutoModelForPreTraining.from_pretrained(path, output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    masked = AutoModelForMaskedLM.from_pretrained(path)
    words = AutoTokenizer.from_pretrained(path)
    batch = words("The boats carry [MASK] to the sea.", "In the evening.", return_tensors="pt")
    assert words.mask_token_id in batch["input_ids"]
    assert words.get_vocab() == tokenizer.get_vocab()
    model.eval()
    with torch.no_grad():
        expected = AlbertForPreTraining.forward(model, **batch).prediction_logits
        assert torch.equal(loaded(**batch).prediction_logits, expected)
        assert torch.equal(masked(**batch).logits, expected)


def test_the_configuration_names_a_class_that_transformers_has(save: Save) -> None:
    config = json.loads((save(1) / "config.json").read_text())
    assert config["architectures"] == ["AlbertForPreTraining"]


def test_a_model_is_restored_from_a_checkpoint(save: Save, model: AlbertPretraining) -> None:
    path = save(1)
    other = AlbertPretraining(model.config)  # with other weights
    restore_model(other, load_checkpoint(path).model_state)
    assert all(torch.equal(tensor, other.state_dict()[name]) for name, tensor in model.state_dict().items())


def test_a_checkpoint_of_another_shape_is_refused_and_changes_nothing(save: Save, model: AlbertPretraining) -> None:
    state = load_checkpoint(save(1)).model_state
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    name = "predictions.dense.weight"
    for wrong in (
        state | {name: state[name][:-1]},
        {key: value for key, value in state.items() if key != name},
        state | {"unknown.weight": state[name]},
    ):
        with pytest.raises(CheckpointError, match=r"does not fit .*(predictions\.dense|unknown)\.weight"):
            restore_model(model, {key: tensor + 1 for key, tensor in wrong.items()})
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_checkpoints_are_listed_by_step_and_nothing_else_is(tmp_path: Path, save: Save) -> None:
    for step in (10, 9, 100):
        save(step)
    for other in ("checkpoint-", "checkpoint-1x", "final", ".checkpoint-5.partial-new-1"):
        (tmp_path / other).mkdir()
    (tmp_path / "checkpoint-7").write_text("a file")
    assert [checkpoint.step for checkpoint in list_checkpoints(tmp_path)] == [9, 10, 100]
    newest = newest_checkpoint(tmp_path)
    assert newest is not None
    assert newest.path == tmp_path / "checkpoint-100"
    assert newest.state.step == 100


def test_a_folder_without_checkpoints_has_none(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        assert list_checkpoints(folder) == []
        assert newest_checkpoint(folder) is None
        assert load_newest_checkpoint(folder) is None


def test_a_checkpoint_that_is_pruned_meanwhile_is_left_out_in_silence(
    tmp_path: Path, save: Save, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(1)
    there = [(1, tmp_path / "checkpoint-1"), (2, tmp_path / "checkpoint-2")]
    monkeypatch.setattr("coordinator.checkpoints.checkpoint.named_checkpoints", lambda folder: there)
    assert [one.step for one in list_checkpoints(tmp_path)] == [1]
    assert caplog.records == []


@pytest.mark.parametrize(
    ("name", "damage"),
    [(name, damage) for name in FILES for damage in ("empty", "absent", "flipped")],
)
def test_a_broken_checkpoint_is_skipped_with_one_line_and_an_older_one_taken(
    tmp_path: Path, save: Save, caplog: pytest.LogCaptureFixture, name: str, damage: str
) -> None:
    save(1)
    broken = save(2) / name
    if damage == "absent":
        broken.unlink()
    elif damage == "flipped":
        content = bytearray(broken.read_bytes())
        content[len(content) // 2] ^= 1
        broken.write_bytes(content)
    else:
        os.truncate(broken, 0)
    with caplog.at_level(logging.WARNING):
        loaded = load_newest_checkpoint(tmp_path)
    assert loaded is not None
    assert loaded.trainer_state.step == 1
    (record,) = caplog.records
    assert "checkpoint-2" in record.getMessage()
    assert "\n" not in record.getMessage()


def test_an_optimizer_state_that_would_run_code_is_not_loaded(tmp_path: Path, save: Save) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {tmp_path}/owned",)

    path = save(1)
    torch.save({"state": Evil()}, path / "optimizer.pt")
    write_sums(path)
    with pytest.raises(CheckpointError, match="broken"):
        load_checkpoint(path)
    assert not (tmp_path / "owned").exists()


def test_what_a_newer_version_says_of_a_state_is_no_damage(save: Save) -> None:
    path = save(1) / "trainer_state.json"
    state = read_state(path.parent)
    path.write_text(json.dumps(asdict(state) | {"moonlight": 0.5}), encoding="utf-8")
    assert read_state(path.parent) == state


def test_a_second_checkpoint_of_a_step_replaces_the_first(save: Save, model: AlbertPretraining) -> None:
    save(1)
    with torch.no_grad():
        model.predictions.bias.add_(1.0)
    loaded = load_checkpoint(save(1))
    assert torch.equal(loaded.model_state["predictions.bias"], model.predictions.bias)


def test_a_full_disk_is_said_in_one_line_and_leaves_the_older_checkpoint(tmp_path: Path, save: Save) -> None:
    pages = sum(-(-file.stat().st_size // 4096) for file in save(1).iterdir())
    for fraction in (0.1, 0.5, 0.9):  # of the second checkpoint has room
        with small_disk(tmp_path / f"disk-{fraction}", 4 * int(pages * (1 + fraction))) as disk:
            save(1, disk)
            with pytest.raises(StorageError, match="checkpoint-2: could not be saved") as caught:
                save(2, disk)
            assert "\n" not in str(caught.value)
            assert [path.name for path in disk.iterdir()] == ["checkpoint-1"]
            load_checkpoint(disk / "checkpoint-1")


def test_a_checkpoint_that_does_not_fit_is_not_begun(
    tmp_path: Path, save: Save, model: AlbertPretraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or what else is written would find the disk full meanwhile, at each try."""
    size = sum(file.stat().st_size for file in save(1).iterdir())
    monkeypatch.setattr("swarm.files.NEARLY_FULL", 0)
    usage = shutil.disk_usage(tmp_path)._replace(free=size // 2)
    monkeypatch.setattr("coordinator.checkpoints.store.shutil.disk_usage", lambda folder: usage)
    begun = Mock(side_effect=model.save_pretrained)
    monkeypatch.setattr(model, "save_pretrained", begun)
    with pytest.raises(StorageError, match=r"checkpoint-2: could not be saved, it takes \d+ MB and \d+ MB are free"):
        save(2)
    assert not begun.called and [path.name for path in tmp_path.glob("*checkpoint-*")] == ["checkpoint-1"]
    usage = usage._replace(free=size)
    save(2)


def die_while_saving(folder: Path) -> None:
    """Save a second checkpoint, and be killed in the middle of it."""
    source = folder / "checkpoint-1"
    loaded = load_checkpoint(source)

    def die(event: str, arguments: tuple[object, ...]) -> None:
        path = str(arguments[0]) if arguments else ""
        if event == "open" and ".partial-" in path and path.endswith("trainer_state.json"):
            os.kill(os.getpid(), signal.SIGKILL)

    model = AlbertPretraining.from_pretrained(source)
    tokenizer = AutoTokenizer.from_pretrained(source)
    run = load_run(source / "run.yaml")
    sys.addaudithook(die)
    state = replace(STATE, step=2)
    save_checkpoint(
        folder, model=model, tokenizer=tokenizer, optimizer_state=loaded.optimizer_state, run=run, state=state
    )


def test_a_checkpoint_killed_in_the_middle_is_absent_and_the_next_one_sweeps_it(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, save: Save
) -> None:
    save(1)
    said = tmp_path_factory.mktemp("killed") / "said"
    assert start_function(die_while_saving, tmp_path, out=said).wait() == -signal.SIGKILL, said.read_text()
    leftovers = [path for path in tmp_path.iterdir() if path.name != "checkpoint-1"]
    assert len(leftovers) == 1
    assert (leftovers[0] / "model.safetensors").exists()
    assert [checkpoint.step for checkpoint in list_checkpoints(tmp_path)] == [1]
    save(2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-1", "checkpoint-2"]
