"""Checkpoints of a run beside other models."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from rich.console import Console
from transformers import PreTrainedTokenizerFast

from downstream import comparison
from downstream.data.loading import DataOptions
from downstream.errors import ModelError
from downstream.evaluate import evaluate
from downstream.finetune import finetune
from downstream.report.results import AS_IT_IS, FINE_TUNED, FROM_SCRATCH
from downstream.tasks import TASKS
from swarm.errors import DataError, StorageError
from tests.downstream.conftest import QUICK, write_conll, write_pretrained

FAST = replace(QUICK, epochs=3)


@pytest.fixture(scope="module")
def finished(pretrained: Path, entities: DataOptions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was fine-tuned for named entities."""
    out = tmp_path_factory.mktemp("finished") / "tagger"
    finetune(TASKS["ner"](), str(pretrained), entities, QUICK, out=out)
    return out


def test_checkpoints_of_a_run_a_finished_model_and_random_weights_in_one_table_and_picture(
    finished: Path, tokenizer: PreTrainedTokenizerFast, entities: DataOptions, tmp_path: Path
):
    checkpoints = tmp_path / "nodi-state" / "checkpoints"
    for step in (20, 100):
        write_pretrained(checkpoints / f"checkpoint-{step}", tokenizer, seed=step, step=step)
    console = Console(record=True, width=100)
    results = evaluate(
        "ner",
        [str(tmp_path / "nodi-state"), str(finished)],
        entities,
        FAST,
        from_scratch=True,
        json_file=tmp_path / "r.json",
        picture=tmp_path / "curve.svg",
        console=console,
    )
    assert [(model.how, model.step) for model in results.models] == [
        (FROM_SCRATCH, None),
        (FINE_TUNED, 20),
        (FINE_TUNED, 100),
        (AS_IT_IS, None),
    ]
    said = console.export_text()
    for part in ("checkpoint-20", "checkpoint-100", "tagger, as it is", "step"):
        assert part in said, part
    assert (tmp_path / "r.json").is_file()
    drawn = (tmp_path / "curve.svg").read_text()
    assert "tagger, as it is: " in drawn and "from random weights: " in drawn and ">global step<" in drawn


def test_finished_models_need_nothing_but_the_test_split_and_tell_the_task(finished: Path, entities: DataOptions):
    results = evaluate(None, [str(finished)], DataOptions(test=entities.test), QUICK)
    (model,) = results.models
    assert model.test("f1").mean > 0.9
    assert model.validation("f1") is None


def test_a_model_that_cannot_be_used_is_told_before_another_one_is_fine_tuned(
    pretrained: Path, copied: Path, entities: DataOptions, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(comparison, "fit", None)
    (copied / "tokenizer.json").write_text("{")
    with pytest.raises(ModelError, match=r"broken: .*no readable tokenizer"):
        evaluate("ner", [str(pretrained), str(copied)], entities, FAST)


def test_models_that_were_measured_are_kept_when_a_later_one_fails(
    finished: Path, copied: Path, entities: DataOptions, tmp_path: Path
):
    os.truncate(copied / "model.safetensors", 1000)
    console = Console(record=True, width=100)
    with pytest.raises(ModelError, match=r"broken: .*cannot be used"):
        evaluate("ner", [str(finished), str(copied)], entities, FAST, json_file=tmp_path / "r.json", console=console)
    assert [model["name"] for model in json.loads((tmp_path / "r.json").read_text())["models"]] == ["tagger"]
    assert "24 test examples" in console.export_text()


def test_a_checkpoint_that_is_removed_meanwhile_is_left_out_and_the_others_are_measured(
    finished: Path, copied: Path, entities: DataOptions, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(comparison.Comparison, "check", lambda *_: shutil.rmtree(copied))
    with pytest.raises(ModelError, match="broken"):
        evaluate("ner", [str(copied)], entities, FAST)
    shutil.copytree(finished, copied)
    console = Console(record=True, width=100)
    results = evaluate("ner", [str(copied), str(finished)], entities, FAST, console=console)
    assert [model.name for model in results.models] == ["tagger"]
    assert "broken: left out, as " in console.export_text()


def test_a_gpu_without_room_is_one_line(pretrained: Path, entities: DataOptions, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(comparison, "fit", Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory.")))
    with pytest.raises(ModelError, match=r"albert-nodi: --batch-size 8 does not fit.*smaller --batch-size or --max"):
        evaluate("ner", [str(pretrained)], entities, FAST)


def test_a_pretrained_model_without_training_data_is_named(pretrained: Path, entities: DataOptions):
    with pytest.raises(ModelError, match="albert-nodi: not fine-tuned for ner yet; give --train and --validation"):
        evaluate("ner", [str(pretrained)], DataOptions(test=entities.test), QUICK)


def test_a_finished_model_of_another_task_is_named(finished: Path, opinions: DataOptions):
    with pytest.raises(ModelError, match=r"tagger: the wrong head \(ForTokenClassification\)"):
        evaluate("classify", [str(finished)], opinions, QUICK)


def test_a_label_that_a_finished_model_does_not_know_counts_as_missed(finished: Path, tmp_path: Path):
    test = write_conll(tmp_path / "test.conll", 20, 0)
    known = evaluate("ner", [str(finished)], DataOptions(test=test), QUICK).models[0]
    test.write_text(test.read_text() + "\nমেলা\tB-EVENT\n")
    console = Console(record=True, width=100)
    more = evaluate("ner", [str(finished)], DataOptions(test=test), QUICK, console=console).models[0]
    assert more.test("recall").mean < known.test("recall").mean
    said = " ".join(console.export_text().split())
    assert "Labels unknown to tagger count as missed: B-EVENT; 1 in test, the first at" in said


def test_a_finished_model_that_knows_no_label_of_the_data_is_an_end(finished: Path, tmp_path: Path):
    test = tmp_path / "test.conll"
    test.write_text("মেলা\tB-EVENT\n")
    with pytest.raises(DataError, match=r"test\.conll:1: 'B-EVENT', like every label .* unknown to tagger"):
        evaluate("ner", [str(finished)], DataOptions(test=test), QUICK)


def test_a_finished_model_is_measured_on_tags_of_another_scheme(finished: Path, tmp_path: Path):
    test = write_conll(tmp_path / "test.conll", 20, 0)
    bio = evaluate("ner", [str(finished)], DataOptions(test=test), QUICK).models[0]
    test.write_text(test.read_text().replace("B-", "U-"))  # all names are of one word
    bilou = evaluate("ner", [str(finished)], DataOptions(test=test), QUICK).models[0]
    assert bilou.test("f1") == bio.test("f1")


def test_an_unknown_kind_of_picture_is_told_before_the_work(finished: Path, entities: DataOptions, tmp_path: Path):
    with pytest.raises(StorageError, match="unknown kind of picture"):
        evaluate("ner", [str(finished)], entities, QUICK, picture=tmp_path / "curve.gif")
