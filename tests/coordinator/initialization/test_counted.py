"""A run that begins with what was counted in its text."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from coordinator.evaluation.evaluator import evaluate
from coordinator.evaluation.held_out import held_out_batches
from coordinator.evaluation.unigram import count_tokens, masked_tokens, training_documents, unigram_loss
from coordinator.initialization import counted
from coordinator.initialization.counted import begin_with_counts, text_of
from corpus.documents import open_documents
from swarm.errors import DataError
from swarm.run_file import RunFile
from tests.coordinator.initialization.conftest import MODERNBERT, TOPICS, MakeRun
from trainer.model import PretrainingModel, build_model, vocabulary_of


@pytest.fixture(params=["albert", "modernbert"])
def run(request: pytest.FixtureRequest, make_run: MakeRun) -> RunFile:
    return make_run(None, **({} if request.param == "albert" else MODERNBERT))


def begun(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> tuple[PretrainingModel, list[str]]:
    model, said = build_model(run, tokenizer), list[str]()
    assert begin_with_counts(model, run, tokenizer, said.append)
    return model, said


def test_it_begins_near_the_loss_of_a_table_of_frequencies(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    held_out = held_out_batches(run, open_documents(run, run.data.train, seed=0, repeat=False), tokenizer, 8)
    table = unigram_loss(count_tokens(training_documents(run), tokenizer, run.language), masked_tokens(held_out))
    drawn = evaluate(build_model(run, tokenizer), held_out).masked_lm_loss
    model, said = begun(run, tokenizer)
    counted = evaluate(model, held_out).masked_lm_loss
    assert len(said) == 1
    assert counted - table < 0.2 * (drawn - table)


def test_tokens_with_the_same_neighbours_are_alike_and_sizes_are_those_that_were_drawn(
    run: RunFile, tokenizer: PreTrainedTokenizerFast
) -> None:
    rows, drawn = (vocabulary_of(one)[0].detach() for one in (begun(run, tokenizer)[0], build_model(run, tokenizer)))
    assert float(rows.std()) == pytest.approx(float(drawn.std()), rel=0.2)
    frequent = (
        torch.bincount(torch.tensor([*chain.from_iterable(text_of(run, tokenizer))]), minlength=len(tokenizer))
        .topk(60)
        .indices
    )
    cosines = [
        torch.nn.functional.cosine_similarity(one[frequent, None], one[None, frequent], dim=2) for one in (rows, drawn)
    ]
    spread = [float(one.fill_diagonal_(0.0).std()) for one in cosines]
    assert spread[0] > 1.2 * spread[1], "neighbours in the text tell which tokens are alike"


def test_it_is_the_same_at_every_start(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    first, second = (begun(run, tokenizer)[0].state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_text_that_only_trainers_have_leaves_random_embeddings_and_is_told(
    run: RunFile, tokenizer: PreTrainedTokenizerFast
) -> None:
    Path(run.resolve("text.txt")).unlink()
    model, said = build_model(run, tokenizer), list[str]()
    assert not begin_with_counts(model, run, tokenizer, said.append)
    (line,) = said
    assert "random embeddings" in line
    assert "text.txt" in line
    drawn = build_model(run, tokenizer)
    for ours, theirs in zip(vocabulary_of(model), vocabulary_of(drawn), strict=True):
        assert torch.equal(ours, theirs)


def test_a_run_does_not_begin_while_its_text_cannot_be_read(
    run: RunFile, tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = "no usable data source, each failed 5 times in a row: river/text: ConnectTimeout"
    monkeypatch.setattr(counted, "training_documents", lambda *_: failing(0, away))
    with pytest.raises(DataError, match=rf"{away}; start again when .*, or set model\.embeddings: random"):
        begun(run, tokenizer)


def test_what_came_before_the_text_failed_is_counted_if_it_is_enough(
    run: RunFile, tokenizer: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = text_of(run, tokenizer)
    monkeypatch.setattr(counted, "training_documents", lambda *_: failing(3, "away"))
    monkeypatch.setattr(counted, "ENOUGH", 50)
    some = text_of(run, tokenizer)
    assert 0 < len(some) < len(whole)
    monkeypatch.setattr(counted, "ENOUGH", 10**9)
    with pytest.raises(DataError, match="away"):
        text_of(run, tokenizer)


def failing(documents: int, reason: str) -> Iterator[str]:
    """So many documents, and then an error."""
    yield from TOPICS[:documents]
    raise DataError(reason)
