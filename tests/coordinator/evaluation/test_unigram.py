"""The loss of a table of token frequencies: the formula, what is counted, and that nobody waits for it."""

import json
import math
import threading
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from coordinator.evaluation.unigram import (
    UnigramBaseline,
    count_tokens,
    masked_tokens,
    training_documents,
    unigram_loss,
)
from coordinator.ledger.answers import below_unigram, compared
from swarm.run_file import DataSource, RunFile
from tests.coordinator.conftest import SENTENCES
from tests.support.waiting import PATIENCE, wait_until
from trainer.data import Batch


@pytest.mark.parametrize(
    ("counts", "tokens", "loss"),
    [
        pytest.param([3, 0, 1], [0, 0, 2], -(2 * math.log(4 / 7) + math.log(2 / 7)) / 3, id="one is added to each"),
        pytest.param([9, 0], [1], math.log(11), id="never counted, and finite"),
        pytest.param([0] * 50, range(50), math.log(50), id="without counts all are as likely"),
    ],
)
def test_the_loss_is_that_of_frequencies(counts: list[int], tokens: list[int], loss: float) -> None:
    assert unigram_loss(counts, tokens) == pytest.approx(loss)


@pytest.mark.parametrize(
    ("loss", "unigram", "told"),
    [
        (4.71, 7.17, ", 2.46 lower than guessing from word frequencies alone"),
        (8.0, 7.0, ", 1.00 higher than guessing from word frequencies alone"),
        (None, 7.0, ""),
        (7.0, None, ""),
    ],
)
def test_people_read_how_far_it_is_from_the_table(loss: float | None, unigram: float | None, told: str) -> None:
    assert compared(below_unigram(loss, unigram)) == told


def test_tokens_are_counted_without_special_ones(tokenizer: PreTrainedTokenizerFast) -> None:
    counts = count_tokens(["The river. \N{SNOWMAN} [SEP] The sea."], tokenizer, "en")
    ids = [
        token
        for sentence in ("The river.", "\N{SNOWMAN} [SEP] The sea.")
        for token in tokenizer(sentence, add_special_tokens=False)["input_ids"]
    ]
    ordinary = [token for token in ids if token not in tokenizer.all_special_ids]
    assert len(ordinary) < len(ids)
    assert counts == [ordinary.count(token) for token in range(len(tokenizer))]


def test_of_a_large_text_the_beginning_is_counted(tokenizer: PreTrainedTokenizerFast) -> None:
    read = []

    def endless():
        while True:
            read.append(1)
            yield " ".join(SENTENCES)

    counts = count_tokens(endless(), tokenizer, "en", most=1000)
    assert sum(counts) >= 1000
    assert len(read) < 1000


@pytest.fixture
def with_text(run: RunFile, tmp_path: Path) -> RunFile:
    """A run with two sources, of which the first weighs three times as much."""
    sources = []
    for name, weight in (("river", 3.0), ("sea", 1.0)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps({"text": f"{name} {number}"}) + "\n" for number in range(60)))
        sources.append(DataSource(path=str(path), weight=weight))
    return run.model_copy(update={"data": run.data.model_copy(update={"train": sources})})


def test_sources_are_mixed_by_weight_in_the_same_order_each_time(with_text: RunFile) -> None:
    documents = list(training_documents(with_text))
    assert documents == list(training_documents(with_text))
    assert sorted(documents) == sorted(f"{name} {number}" for name in ("river", "sea") for number in range(60))
    assert [one for one in documents if one.startswith("sea")] == [f"sea {number}" for number in range(60)]
    assert 22 <= sum(one.startswith("river") for one in documents[:40]) <= 38


def test_the_baseline_is_found_in_the_background(
    with_text: RunFile, tokenizer: PreTrainedTokenizerFast, batches: list[Batch]
) -> None:
    said: list[str] = []
    baseline = UnigramBaseline(with_text, tokenizer, batches, said.append, threading.Event())
    assert baseline.loss is None
    baseline.start()
    wait_until(lambda: baseline.loss is not None, "unigram loss")
    counts = count_tokens(training_documents(with_text), tokenizer, "en")
    tokens = masked_tokens(batches)
    assert len(tokens) == sum(batch.masked for batch in batches)
    assert baseline.loss == unigram_loss(counts, tokens)
    assert said == []


def test_training_text_that_is_not_there_is_said_once_and_counted_when_it_is(
    with_text: RunFile, tokenizer: PreTrainedTokenizerFast, batches: list[Batch]
) -> None:
    stop, said, text = Pauses(), list[str](), Path(str(with_text.data.train[0].path))
    aside = text.rename(text.with_suffix(".aside"))
    baseline = UnigramBaseline(with_text, tokenizer, batches, said.append, stop)
    baseline.start()
    wait_until(lambda: len(stop.pauses) == 3, "three attempts")
    assert baseline.loss is None
    aside.rename(text)
    stop.go_on.release()
    wait_until(lambda: baseline.loss is not None, "unigram loss")
    assert stop.pauses == [15.0, 30.0, 60.0]
    (line,) = said
    assert "not yet compared with guessing from word frequencies" in line and text.name in line


class Pauses(threading.Event):
    """Notes how long it is waited for; the third time for the test."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float | None] = []
        self.go_on = threading.Semaphore(2)

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout)
        return not self.go_on.acquire(timeout=PATIENCE)


def test_a_coordinator_that_leaves_or_has_no_held_out_text_counts_nothing(
    with_text: RunFile, tokenizer: PreTrainedTokenizerFast, batches: list[Batch]
) -> None:
    leaving = threading.Event()
    leaving.set()
    said: list[str] = []
    for held_out in ([], batches):
        baseline = UnigramBaseline(with_text, tokenizer, held_out, said.append, leaving)
        baseline.start()
        baseline.finish()
        assert not any(one.name == "unigram" for one in threading.enumerate())
        assert baseline.loss is None and said == []
