"""Batches from instances."""

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from swarm.run_file import RunFile
from trainer.data.batch import LENGTHS, POSITIONS, Batch, Collator
from trainer.data.instances import Instance


def instance(tokens: int, swapped: bool = False) -> Instance:
    return Instance(range(10, 10 + tokens // 2), range(500, 500 + tokens - tokens // 2), swapped)


def original(batch: Batch) -> torch.Tensor:
    ids = batch.input_ids.clone()
    ids.view(-1)[batch.masked_positions[: batch.masked]] = batch.masked_labels[: batch.masked]
    return ids


def test_a_sample_is_framed_as_the_tokenizer_frames_a_pair(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    texts = ("The boats go down the river.", "They come back in the evening, and all are here.")
    first, second = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts)
    batch = Collator(tokenizer, run.data)([Instance(first, second, False)] * 2, np.random.default_rng(0))
    expected = tokenizer(*texts)
    length = len(expected["input_ids"])
    for row in range(2):
        assert original(batch)[row, :length].tolist() == expected["input_ids"]
        assert batch.token_type_ids[row, :length].tolist() == expected["token_type_ids"]


def test_the_label_is_0_in_order_and_1_swapped(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    instances = [instance(20), instance(20, swapped=True), instance(20)]
    batch = Collator(tokenizer, run.data)(instances, np.random.default_rng(0))
    assert batch.sentence_order_label.tolist() == [0, 1, 0]


def test_the_attention_mask_is_none_exactly_when_nothing_is_padded(
    run: RunFile, tokenizer: PreTrainedTokenizerFast
) -> None:
    collator, rng = Collator(tokenizer, run.data), np.random.default_rng(0)
    for lengths in ([61, 61], [29, 29], [61, 60], [30, 30], [13, 61, 8]):
        batch = collator([instance(length) for length in lengths], rng)
        padding = batch.input_ids == tokenizer.pad_token_id
        assert (batch.attention_mask is None) == (not padding.any())
        if batch.attention_mask is not None:
            assert (batch.attention_mask == (~padding).long()).all()
        assert batch.tokens == sum(lengths) + 3 * len(lengths)
        assert batch.samples == len(lengths)


def test_a_batch_is_as_wide_as_its_longest_sample_needs(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    collator, rng = Collator(tokenizer, run.data), np.random.default_rng(0)
    widths = set()
    for longest in range(8, 62):
        width = collator([instance(8), instance(longest)], rng).input_ids.shape[1]
        assert longest + 3 <= width <= run.data.max_length
        assert width < longest + 3 + run.data.max_length / LENGTHS
        widths.add(width)
    assert len(widths) == LENGTHS


def test_special_tokens_are_never_masked_not_even_those_in_the_text(
    run: RunFile, tokenizer: PreTrainedTokenizerFast
) -> None:
    text = tokenizer("What [SEP] and ☃ and [MASK] and ☃☃ mean, is written here.", add_special_tokens=False)
    assert {tokenizer.unk_token_id, tokenizer.sep_token_id} < set(text["input_ids"])
    collator = Collator(tokenizer, run.data)
    for seed in range(50):
        rng = np.random.default_rng(seed)
        batch = collator([Instance(text["input_ids"], text["input_ids"], False), instance(40)], rng)
        assert not np.isin(batch.masked_labels[: batch.masked], tokenizer.all_special_ids).any()


def test_a_masked_token_never_becomes_a_special_one_other_than_the_mask(
    run: RunFile, tokenizer: PreTrainedTokenizerFast
) -> None:
    collator, rng = Collator(tokenizer, run.data), np.random.default_rng(0)
    seen: set[int] = set()
    for _ in range(100):
        batch = collator([instance(61)] * 32, rng)
        seen.update(batch.input_ids.view(-1)[batch.masked_positions[: batch.masked]].tolist())
    assert seen & set(tokenizer.all_special_ids) == {tokenizer.mask_token_id}
    assert max(seen) < len(tokenizer)
    assert len(seen) > 0.8 * len(tokenizer)


def test_tokens_outside_the_masked_positions_are_untouched(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    one = instance(50)
    batch = Collator(tokenizer, run.data)([one], np.random.default_rng(0))
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    assert original(batch)[0, :53].tolist() == [cls, *one.first, sep, *one.second, sep]
    assert batch.masked == round(run.data.masked_fraction * 50)
    assert len(batch.masked_positions) % POSITIONS == 0
