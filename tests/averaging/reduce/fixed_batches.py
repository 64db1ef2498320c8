"""Batches that every process can make again: all samples have the same length and number of masks."""

import torch
from transformers import AlbertConfig

from trainer.data import Batch
from trainer.models.albert import AlbertPretraining

STEPS = 4
SAMPLES = 8  # of one peer in one global step
LENGTH, MASKED, VOCABULARY = 32, 5, 600


def tiny_model() -> AlbertPretraining:
    """A small ALBERT with weights that depend on nothing but this function."""
    torch.manual_seed(0)
    config = AlbertConfig(
        vocab_size=VOCABULARY,
        embedding_size=128,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        classifier_dropout_prob=0.0,
        hidden_act="gelu_pytorch_tanh",
    )
    return AlbertPretraining(config)


def fixed_batch(step: int, number: int) -> Batch:
    """The batch of peer `number` in a global step; learnable: token ids follow each other in order."""
    random = torch.Generator().manual_seed(1000 * step + number)
    start = torch.randint(10, VOCABULARY - LENGTH, (SAMPLES, 1), generator=random)
    ids = start + torch.arange(LENGTH)
    rows = [torch.randperm(LENGTH, generator=random)[:MASKED].sort().values + LENGTH * row for row in range(SAMPLES)]
    positions = torch.cat(rows)
    labels = ids.flatten()[positions]
    ids = ids.flatten().index_fill(0, positions, 4).view(SAMPLES, LENGTH)
    return Batch(
        input_ids=ids,
        token_type_ids=torch.zeros_like(ids),
        attention_mask=None,
        sentence_order_label=torch.randint(0, 2, (SAMPLES,), generator=random),
        masked_positions=positions,
        masked_labels=labels,
    )


def joined(batches: list[Batch]) -> Batch:
    """Several batches as one."""
    length = SAMPLES * LENGTH
    return Batch(
        input_ids=torch.cat([batch.input_ids for batch in batches]),
        token_type_ids=torch.cat([batch.token_type_ids for batch in batches]),
        attention_mask=None,
        sentence_order_label=torch.cat([batch.sentence_order_label for batch in batches]),
        masked_positions=torch.cat([batch.masked_positions + i * length for i, batch in enumerate(batches)]),
        masked_labels=torch.cat([batch.masked_labels for batch in batches]),
    )
