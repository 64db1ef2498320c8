"""Sentence-order instances."""

from itertools import chain, pairwise

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from swarm.run_file import DataSection, RunFile
from trainer.data.instances import SHORTEST, SPECIAL_TOKENS, Instance, make_instances
from trainer.data.sentences import tokenized_documents


def in_text_order(instance: Instance) -> list[int]:
    parts = (instance.second, instance.first) if instance.swapped else (instance.first, instance.second)
    return list(chain(*parts))


def numbered(*lengths: int) -> list[list[int]]:
    """Sentences of so many tokens; each token is its own place in the document."""
    places = iter(range(sum(lengths)))
    return [[next(places) for _ in range(length)] for length in lengths]


def settings(run: RunFile, **changes: object) -> DataSection:
    return run.data.model_copy(update=changes)


def test_swapped_is_true_exactly_when_the_later_text_comes_first(run: RunFile) -> None:
    rng = np.random.default_rng(0)
    instances = list(make_instances(numbered(*[9] * 300), run.data, rng))
    for one in instances:
        assert one.swapped == (one.first[0] > one.second[0])
    assert 0.3 < np.mean([one.swapped for one in instances]) < 0.7


@pytest.mark.parametrize("language", ["english", "bengali"])
def test_every_token_is_used_at_most_once_and_in_order(
    language: str, run: RunFile, request: pytest.FixtureRequest
) -> None:
    prefix = "" if language == "english" else "bengali_"
    texts: list[str] = request.getfixturevalue(f"{prefix}documents")
    tokenizer: PreTrainedTokenizerFast = request.getfixturevalue(f"{prefix}tokenizer")
    rng = np.random.default_rng(1)
    there = used = 0
    for sentences in tokenized_documents(texts, tokenizer, language[:2]):
        places = numbered(*map(len, sentences))
        seen = list(chain(*map(in_text_order, make_instances(places, run.data, rng))))
        assert all(earlier < later for earlier, later in pairwise(seen))
        there, used = there + sum(map(len, sentences)), used + len(seen)
    # what is left out are pieces of less than SHORTEST tokens
    assert used > 0.98 * there


def test_without_swaps_the_same_pairs_stay_in_order(run: RunFile) -> None:
    text = numbered(*[9] * 300)
    swapped, kept = (
        list(make_instances(text, run.data, np.random.default_rng(5), swap=swap)) for swap in (True, False)
    )
    assert any(one.swapped for one in swapped)
    assert not any(one.swapped for one in kept)
    assert [in_text_order(one) for one in kept] == [in_text_order(one) for one in swapped]
    assert all([*one.first, *one.second] == list(in_text_order(one)) for one in kept)


def test_samples_are_never_longer_than_the_model_reads(run: RunFile) -> None:
    rng = np.random.default_rng(2)
    for lengths in ((5,) * 200, (1000,), (61,), (60, 1), (1, 60, 61, 62, 3)):
        for one in make_instances(numbered(*lengths), run.data, rng):
            assert len(one.first) + len(one.second) + SPECIAL_TOKENS <= run.data.max_length


def test_no_segment_is_empty(run: RunFile) -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        lengths = rng.integers(0, 70, size=rng.integers(1, 20)).tolist()
        for one in make_instances(numbered(*lengths), run.data, rng):
            assert len(one.first)
            assert len(one.second)


def test_segments_begin_and_end_with_sentences(run: RunFile) -> None:
    rng = np.random.default_rng(4)
    for one in make_instances(numbered(*[10] * 1000), run.data, rng):
        if len(in_text_order(one)) > 10:
            assert one.first[0] % 10 == one.second[0] % 10 == 0


def test_a_sentence_longer_than_a_sample_is_used_too(run: RunFile) -> None:
    made = list(make_instances(numbered(1000), run.data, np.random.default_rng(4)))
    assert list(chain(*map(in_text_order, made))) == list(range(1000))


def test_the_wanted_fraction_of_samples_is_shorter(run: RunFile) -> None:
    rng = np.random.default_rng(5)
    lengths = {}
    for probability in (0.0, 0.4, 1.0):
        some = settings(run, short_sample_probability=probability)
        made = [len(in_text_order(one)) for one in make_instances(numbered(*[10] * 6000), some, rng)][:-1]
        lengths[probability] = np.mean(np.array(made) < 60)  # six of these sentences fit
    assert lengths[0.0] == 0
    assert lengths[0.4] == pytest.approx(0.4, abs=0.06)
    assert lengths[1.0] > 0.9


def test_a_document_of_a_few_tokens_gives_no_sample(run: RunFile) -> None:
    assert list(make_instances(numbered(SHORTEST - 1), run.data, np.random.default_rng(0))) == []
    assert len(list(make_instances(numbered(SHORTEST), run.data, np.random.default_rng(0)))) == 1
