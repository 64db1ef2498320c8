"""Tags of three schemes, read as BIO."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from transformers import PreTrainedTokenizerFast

from downstream.comparison import Comparison
from downstream.data.examples import TaskData
from downstream.data.loading import DataOptions, load_data
from downstream.finetune import finetune
from downstream.report.results import Results
from downstream.tasks import TASKS
from downstream.tasks.ner import NamedEntities
from downstream.tasks.tags import as_bio
from swarm.errors import DataError
from tests.downstream.conftest import QUICK, write_conll, write_jsonl

BIO = ("O", "B-PER", "I-PER", "I-PER", "B-PER", "I-PER", "O", "B-LOC", "B-LOC", "B-PER")
SAME = {
    "BIO": BIO,
    "BIOES": ("O", "B-PER", "I-PER", "E-PER", "B-PER", "E-PER", "O", "S-LOC", "S-LOC", "S-PER"),
    "BILOU": ("O", "B-PER", "I-PER", "L-PER", "B-PER", "L-PER", "O", "U-LOC", "U-LOC", "U-PER"),
}
WORDS = ["আমি", "রবীন্দ্রনাথ", "নাথ", "ঠাকুর", "সুকুমার", "রায়", "ও", "ঢাকা", "খুলনা", "বেগম"]


@pytest.mark.parametrize("scheme", SAME)
def test_a_sentence_has_the_same_entities_in_every_scheme(scheme: str):
    assert as_bio(SAME[scheme]) == BIO


def test_a_name_that_has_ended_is_not_gone_on_with():
    assert as_bio(("S-PER", "I-PER", "E-PER", "E-PER")) == ("B-PER", "B-PER", "I-PER", "B-PER")
    assert as_bio(("I-PER", "I-PER", "I-LOC")) == ("I-PER", "I-PER", "I-LOC")  # BIO stays, whatever it means


@pytest.mark.parametrize("scheme", SAME)
def test_the_scheme_is_found_from_all_splits_and_said(tmp_path: Path, scheme: str):
    sentence = "".join(f"{word}\t{tag}\n" for word, tag in zip(WORDS, SAME[scheme], strict=True))
    plain = "".join(f"{word}\t{tag}\n" for word, tag in zip(WORDS[:4], SAME["BIO"][:4], strict=True))
    corpus, said = opened(tmp_path, train=plain, validation=plain, test=sentence)
    assert corpus.test.examples[0].labels == BIO
    assert corpus.train is not None and corpus.train.examples[0].labels == BIO[:4]
    assert said == ([] if scheme == "BIO" else [f"The tags are {scheme}; they are read as BIO."])


def test_two_schemes_are_an_error_with_both_places(tmp_path: Path):
    with pytest.raises(DataError) as caught:
        opened(tmp_path, train="a\tS-LOC\n", validation="a\tB-LOC\n", test="a\tO\n\nb\tU-LOC\n")
    words = f"BIOES at {tmp_path}/train.conll:1 and BILOU at {tmp_path}/test.conll:3; write all files in one of them"
    assert words in str(caught.value)


def test_a_model_with_other_tags_predicts_in_bio(tokenizer: PreTrainedTokenizerFast, tmp_path: Path):
    corpus, _ = opened(tmp_path, test="ঢাকা\tU-LOC\nযান\tO\n")
    task = NamedEntities()
    encoded = task.encode(corpus.test.examples, tokenizer, 16)
    names = {0: "O", 1: "B-LOC", 2: "L-LOC", 3: "U-LOC"}
    chosen = np.full((1, len(encoded.words[0])), 3)
    assert task.predictions(encoded, chosen, names) == [("B-LOC", "B-LOC")]
    assert task.predictable(names.values()) == {"O", "B-LOC", "I-LOC"}


@pytest.mark.parametrize("task", TASKS)
def test_a_label_that_training_lacks_is_said_and_counts_as_missed(task: str, pretrained: Path, tmp_path: Path):
    """Two fine-tunings with the same seed, on data that differ in one example of an unknown label."""
    write, extra = (
        (write_conll, "\nমেলা\tS-EVENT\n") if task == "ner" else (write_jsonl, '{"text": "নদী", "label": "neutral"}\n')
    )
    ending = "conll" if task == "ner" else "jsonl"
    train, validation, test = (
        write(tmp_path / f"{name}.{ending}", 24, seed) for seed, name in enumerate(("train", "val", "test"), 1)
    )
    settings, console = replace(QUICK, epochs=1), Console(record=True, width=300)
    results: list[Results] = []
    for addition in ("", extra):
        for file in (validation, test):
            file.write_text(file.read_text(encoding="utf-8") + addition, encoding="utf-8")
        out = tmp_path / f"tuned-{len(results)}"
        results.append(
            finetune(
                TASKS[task](), str(pretrained), DataOptions(train, validation, test), settings, out=out, console=console
            )
        )
    name = {"ner": "B-EVENT", "classify": "neutral"}[task]
    said = console.export_text()
    for split, file in (("validation", validation), ("test", test)):
        assert f"Labels unknown to {train} count as missed: {name}; 1 in {split}, the first at {file}:" in said
    before, after = (one.models[0].test("accuracy").mean for one in results)
    examples = load_data(TASKS[task](), DataOptions(test=test), training=False).test.examples
    counted = sum(len(example.labels) for example in examples)
    assert before > 0
    assert after * counted == pytest.approx(before * (counted - 1))  # the same predictions, and one that is wrong
    assert name not in results[1].labels


def opened(folder: Path, **splits: str) -> tuple[TaskData, list[str]]:
    """CoNLL files with this content, read, and what is said about them."""
    files = {}
    for name, content in splits.items():
        files[name] = folder / f"{name}.conll"
        files[name].write_text(content, encoding="utf-8")
    corpus = load_data(
        NamedEntities(),
        DataOptions(files.get("train"), files.get("validation"), files["test"]),
        training="train" in splits,
    )
    console = Console(record=True, width=300)
    Comparison(NamedEntities(), corpus, QUICK, console)
    return corpus, [line for line in console.export_text().splitlines() if line.startswith("The tags")]
