"""A slice of real Bengali data, with its faults, goes through; what a model learns of it is not the question here."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from transformers import PreTrainedTokenizerFast

from corpus.documents import open_documents
from downstream.data.loading import DataOptions, load_data
from downstream.finetune import finetune
from downstream.heads import open_reader
from downstream.models import inspect_model
from downstream.tasks import TASKS
from swarm.run_file import parse_run
from tests.downstream.conftest import QUICK, write_pretrained
from tokenizer.training import train_tokenizer


@pytest.fixture(scope="module")
def labelled(bengali: Path) -> Path:
    if not (bengali / "ner").is_dir() or not (bengali / "sentiment").is_dir():
        pytest.skip(f"{bengali} holds no ner and sentiment")
    return bengali


@pytest.fixture(scope="module")
def real_model(labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights and a tokenizer of real text."""
    content = {
        "name": "real",
        "language": "bn",
        "tokenizer": {"vocab_size": 1000, "max_documents": 60},
        "data": {"train": [{"path": str(labelled / "validation.jsonl")}], "max_length": 32},
    }
    run = parse_run(content, Path("run.yaml"))
    tokenizer = train_tokenizer(run, open_documents(run, run.data.train, seed=0, repeat=False))
    return write_pretrained(tmp_path_factory.mktemp("real") / "albert", tokenizer, seed=1)


def head(source: Path, target: Path, lines: int) -> Path:
    with source.open(encoding="utf-8") as file:
        target.write_text("".join(itertools.islice(file, lines)), encoding="utf-8")
    return target


@pytest.mark.parametrize(
    ("task", "folder", "kind", "lines", "are_cut"),
    [("ner", "ner", "conll", 600, False), ("classify", "sentiment", "jsonl", 60, True)],
)
def test_a_slice_is_learned_from_scored_and_long_texts_are_told(
    labelled: Path, real_model: Path, tmp_path: Path, task: str, folder: str, kind: str, lines: int, are_cut: bool
):
    files = {
        split: head(labelled / folder / f"{split}.{kind}", tmp_path / f"{split}.{kind}", lines)
        for split in ("train", "validation", "test")
    }
    console = Console(record=True, width=120)
    settings = replace(QUICK, epochs=2)
    results = finetune(
        TASKS[task](),
        str(real_model),
        DataOptions(files["train"], files["validation"], files["test"]),
        settings,
        out=tmp_path / "out",
        console=console,
    )
    (model,) = results.models
    assert (model.truncated["train"] > 0) == are_cut
    assert ("examples longer than it reads were cut" in console.export_text()) == are_cut
    assert 0 < model.runs[0].test["accuracy"] <= 1


def test_all_named_entities_can_be_read_but_a_few_sentences_without_a_tag(labelled: Path):
    files = {split: labelled / "ner" / f"{split}.conll" for split in ("train", "validation", "test")}
    corpus = load_data(TASKS["ner"](), DataOptions(files["train"], files["validation"], files["test"]), training=True)
    assert all(len(split.examples) > 100 * len(split.left_out) for split in corpus.splits)
    assert TASKS["ner"]().labels(corpus.splits[0]) == ("O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-PER", "I-PER")


@pytest.mark.parametrize("max_length", [100_000, 32])
def test_every_word_of_real_text_keeps_its_tag(labelled: Path, real_model: Path, max_length: int):
    task = TASKS["ner"]()
    options = DataOptions(test=labelled / "ner" / "validation.conll")
    examples = load_data(task, options, training=False).test.examples
    tokenizer: PreTrainedTokenizerFast = open_reader(inspect_model(real_model, "real")).tokenizer
    encoded = task.encode(examples, tokenizer, max_length, {tag: 1 for one in examples for tag in one.labels})
    width = max(len(words) for words in encoded.words)
    chosen = [[*feature["labels"], *[0] * (width - len(feature["labels"]))] for feature in encoded.features]
    found = task.predictions(encoded, np.array(chosen), {1: "B-LOC"})
    assert found == [("B-LOC",) * len(one.inputs) for one in encoded.examples]
