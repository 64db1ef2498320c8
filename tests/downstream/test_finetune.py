"""Whole fine-tunings of a tiny model on easy data."""

import io
import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from transformers import AutoModelForTokenClassification, TrainerCallback, TrainingArguments, pipeline

from downstream import comparison
from downstream.data.loading import DataOptions, load_data
from downstream.errors import ModelError
from downstream.finetune import finetune
from downstream.heads import new_head, open_reader
from downstream.models import find_models, inspect_model
from downstream.report.output import check_model_folder
from downstream.report.results import FINE_TUNED, FROM_SCRATCH, Results
from downstream.tasks import TASKS
from downstream.tasks.task import Task
from downstream.training import Fit, fit, predict
from swarm.errors import StorageError
from tests.downstream.conftest import MAX_LENGTH, PEOPLE, QUICK
from tests.support.forked import start_forked
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.xdist_group("finetune")  # a model for most of them


@pytest.fixture(scope="session")
def ner_results(
    pretrained: Path, entities: DataOptions, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Results, Path, str]:
    """Two seeds and a model from random weights: what came out, the folder with the files, and what was said."""
    folder = tmp_path_factory.mktemp("tuned")
    console = Console(record=True, width=100)
    results = finetune(
        TASKS["ner"](),
        str(pretrained),
        entities,
        replace(QUICK, seeds=2),
        out=folder / "model",
        from_scratch=True,
        json_file=folder / "results.json",
        console=console,
    )
    return results, folder, console.export_text()


def test_each_seed_is_scored_and_a_model_from_random_weights_stands_beside(ner_results: tuple[Results, Path, str]):
    results, _, said = ner_results
    assert [model.how for model in results.models] == [FINE_TUNED, FROM_SCRATCH]
    for model in results.models:
        assert [run.seed for run in model.runs] == [1, 2]
        assert model.test("f1").mean > 0.9  # every word always has the same tag
        assert model.test("f1").deviation is not None
        for run in model.runs:
            assert run.best_epoch is not None and run.epochs is not None
            assert 1 <= run.best_epoch <= run.epochs <= QUICK.epochs
    for part in (
        "seed 2",
        "albert-nodi, fine-tuned",
        "from random weights",
        "±",
        "token-classification",
        f"stride={MAX_LENGTH // 4}",
    ):
        assert part in said, part


def test_the_json_file_holds_the_results(ner_results: tuple[Results, Path, str]):
    results, folder, _ = ner_results
    content = json.loads((folder / "results.json").read_text())
    assert content["labels"] == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert content["data"]["train"]["examples"] == 96
    assert content["settings"]["learning_rates"] == [1e-2]
    assert content["models"][0]["test"]["f1"]["mean"] == results.models[0].test("f1").mean


def test_the_saved_model_works_in_a_pipeline_and_names_people(ner_results: tuple[Results, Path, str]):
    _, folder, _ = ner_results
    tagger = pipeline(
        "token-classification", str(folder / "model"), aggregation_strategy="first", stride=MAX_LENGTH // 4
    )
    text = f"{PEOPLE[1]} ঢাকা থেকে যান ।"
    for before in ("", "থেকে যান । " * MAX_LENGTH):
        found = {
            one["entity_group"]: (before + text)[int(one["start"]) : int(one["end"])].strip()
            for one in tagger(before + text)
        }
        assert found == {"PER": PEOPLE[1], "LOC": "ঢাকা"}, "also where the text is longer than the model reads"


def test_the_saved_model_is_the_seed_that_validated_best(ner_results: tuple[Results, Path, str], entities: DataOptions):
    results, folder, _ = ner_results
    best = max(results.models[0].runs, key=lambda run: (run.validation or {})["f1"])
    task = TASKS["ner"]()
    reader = open_reader(inspect_model(folder / "model", "saved"))
    encoded = task.encode(load_data(task, entities, training=False).test.examples, reader.tokenizer, reader.max_length)
    model = AutoModelForTokenClassification.from_pretrained(folder / "model")
    scores = task.score([one.labels for one in encoded.examples], predict(model, task, reader, encoded))
    assert scores == pytest.approx(best.test)


@pytest.mark.parametrize("name", TASKS)
def test_validation_scores_are_those_of_the_weights_that_are_kept(
    name: str, pretrained: Path, entities: DataOptions, opinions: DataOptions
):
    task: Task = TASKS[name]()
    corpus = load_data(task, entities if name == "ner" else opinions, training=True)
    assert corpus.train is not None and corpus.validation is not None
    (model,) = find_models(str(pretrained))
    reader, labels = open_reader(model), task.labels(corpus.train)
    numbers = {label: number for number, label in enumerate(labels)}
    train, validation = (
        task.encode(split.examples, reader.tokenizer, reader.max_length, numbers)
        for split in (corpus.train, corpus.validation)
    )
    found = []
    for _ in range(2):
        learner = new_head(model, task, labels, 3, from_scratch=False)
        settings = replace(QUICK, epochs=3)
        fitted = fit(learner, task, reader, train, validation, settings, learning_rate=3e-3, seed=3)
        again = task.score([one.labels for one in validation.examples], predict(learner, task, reader, validation))
        assert again == pytest.approx(fitted.validation)
        found.append([(epoch.scores, epoch.loss) for epoch in fitted.epochs])
    assert found[0] == found[1], "the same seed gives the same training"


def test_classification_learns_and_takes_the_better_of_two_learning_rates(
    pretrained: Path, opinions: DataOptions, tmp_path: Path
):
    settings = replace(QUICK, learning_rates=(1e-6, 1e-2))
    said = io.StringIO()
    task, out, console = TASKS["classify"](), tmp_path / "model", Console(file=said, width=200)
    results = finetune(task, str(pretrained), opinions, settings, out=out, console=console)
    (run,) = results.models[0].runs
    assert run.learning_rate == 1e-2
    assert run.test["accuracy"] > 0.9
    (told,) = [line for line in said.getvalue().splitlines() if line.startswith("from transformers import pipeline; ")]
    judge = eval(told.partition("; ")[2])
    texts = ["নদী ভালো হয়", "বাজে বই", "ভালো " * 1000]  # the last is longer than the model reads
    judged = [one["label"] for one in judge(texts)]
    assert judged[:2] == ["positive", "negative"] and len(judged) == 3


def test_training_ends_when_validation_gets_no_better(pretrained: Path, opinions: DataOptions, tmp_path: Path):
    settings = replace(QUICK, epochs=40, patience=2, learning_rates=(0.0,))
    results = finetune(TASKS["classify"](), str(pretrained), opinions, settings, out=tmp_path / "model")
    (run,) = results.models[0].runs
    assert (run.epochs, run.best_epoch) == (3, 1)


def test_the_fine_tuned_model_is_kept_when_the_one_from_random_weights_fails(
    pretrained: Path, entities: DataOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fit_once(*given: Any, **named: Any) -> Fit:
        monkeypatch.setattr(comparison, "fit", None)
        return fit(*given, **named)

    monkeypatch.setattr(comparison, "fit", fit_once)
    out, json_file, quick = tmp_path / "model", tmp_path / "results.json", replace(QUICK, epochs=1)
    with pytest.raises(TypeError):
        finetune(TASKS["ner"](), str(pretrained), entities, quick, out=out, from_scratch=True, json_file=json_file)
    assert [model["how"] for model in json.loads(json_file.read_text())["models"]] == [FINE_TUNED]
    assert inspect_model(out, "saved").is_fine_tuned


def test_a_batch_is_as_large_as_was_asked_for(pretrained: Path, opinions: DataOptions):
    class Noted(TrainerCallback):
        def on_train_begin(self, args: TrainingArguments, *_: object, **__: object) -> None:
            self.sizes = (args.n_gpu, args.train_batch_size, args.eval_batch_size)

    task, noted = TASKS["classify"](), Noted()
    (model,) = find_models(str(pretrained))
    reader, examples = open_reader(model), load_data(task, opinions, training=False).test.examples
    encoded = task.encode(examples, reader.tokenizer, reader.max_length, {"negative": 0, "positive": 1})
    learner, quick = new_head(model, task, ("negative", "positive"), 1), replace(QUICK, epochs=1)
    fit(learner, task, reader, encoded, encoded, quick, learning_rate=0.0, seed=1, callbacks=[noted])
    assert noted.sizes == (1, 8, 16)


@pytest.mark.parametrize("place", ["the model's own folder", "another folder", "a file"])
def test_nothing_but_a_fine_tuned_model_is_replaced(copied: Path, entities: DataOptions, tmp_path: Path, place: str):
    out = {"the model's own folder": copied, "another folder": tmp_path, "a file": tmp_path / "file"}[place]
    (tmp_path / "file").write_text("mine")
    with pytest.raises((ModelError, StorageError), match=r"(give a new|choose another) folder"):
        finetune(TASKS["ner"](), str(copied), entities, QUICK, out=out)
    assert (copied / "model.safetensors").is_file()


def test_a_fine_tuned_model_beside_something_else_is_not_replaced(copied: Path):
    (copied / "config.json").write_text('{"architectures": ["AlbertForTokenClassification"]}')
    check_model_folder(copied, TASKS["ner"]())
    (copied / ".git").mkdir()
    with pytest.raises(ModelError, match=r"\(\.git\), which would be deleted; give a new folder with --out"):
        check_model_folder(copied, TASKS["ner"]())


def test_a_place_that_cannot_be_written_is_told_before_the_work(
    pretrained: Path, entities: DataOptions, tmp_path: Path
):
    (tmp_path / "results").mkdir()
    for file, problem in ("results", "a folder, not a file"), ("out/results.json", "is replaced as a whole"):
        with pytest.raises(StorageError, match=problem):
            finetune(TASKS["ner"](), str(pretrained), entities, QUICK, out=tmp_path / "out", json_file=tmp_path / file)
    assert not (tmp_path / "out").exists()


def test_ctrl_c_in_the_middle_of_training_ends_without_a_traceback_and_leaves_nothing(
    pretrained: Path, entities: DataOptions, tmp_path: Path
):
    out, err, folder = tmp_path / "out", tmp_path / "err", tmp_path / "work"
    folder.mkdir()
    files = ("--train", entities.train, "--validation", entities.validation, "--test", entities.test)
    command = start_forked(
        ("finetune", "ner", "--model", pretrained, *files, "--epochs", 10_000, "--patience", 10_000, "--out", "tuned"),
        out,
        err,
        cwd=folder,
    )
    wait_until(lambda: "epoch 1 of" in out.read_text() or command.poll(), lambda: f"epoch: {err.read_text()}")
    command.send_signal(signal.SIGINT)
    assert command.wait(PATIENCE) == 130
    assert err.read_text() == "sahaj: stopped\n"
    assert not list(folder.iterdir())
