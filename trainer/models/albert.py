"""ALBERT with the masked-LM head, and with that for the order of segments or without (Lan et al. 2020), cheap to train.

The vocabulary projection runs on the masked positions only, by default 15 % of all; on a small model it
is most of the work. The losses are those of Transformers' `AlbertForPreTraining` and `AlbertForMaskedLM`.
"""

import math
from typing import Any

import torch
from torch import nn
from transformers import AlbertConfig, AlbertForMaskedLM, AlbertForPreTraining, PreTrainedTokenizerFast
from transformers.masking_utils import create_bidirectional_mask

from experts.layer.expert_term import ExpertTerm
from swarm.run_file import ExpertsSection, RunFile
from trainer.attention import ATTENTION
from trainer.data.batch import NOT_COUNTED, Batch
from trainer.models.losses import Losses

LONGEST_WAVE = 10_000  # period of the slowest sinusoid, in positions, divided by 2 pi


class AlbertPretraining(AlbertForPreTraining):
    """Transformers' ALBERT; its checkpoints load as any ALBERT's do. With `experts` it has a term beside it."""

    def __init__(self, config: AlbertConfig, experts: ExpertsSection | None = None):
        super().__init__(config)
        self.set_attn_implementation(ATTENTION)
        self.expert_term = None if experts is None else ExpertTerm(experts, config.hidden_size)

    def forward(self, batch: Batch) -> Losses:
        """The losses of a batch of B samples with M masked positions."""
        last, balancing_loss = read_states(self, batch, first_tokens=True)  # [M + B, hidden]
        token_scores = self.predictions(last[: len(batch.masked_positions)])  # [M, vocabulary]
        pooled = self.albert.pooler_activation(self.albert.pooler(last[len(batch.masked_positions) :]))
        order_scores = self.sop_classifier(pooled)  # [B, 2]
        masked_lm_loss = nn.functional.cross_entropy(token_scores.float(), batch.masked_labels)
        order_loss = nn.functional.cross_entropy(order_scores.float(), batch.sentence_order_label)
        loss = masked_lm_loss + order_loss + (0.0 if balancing_loss is None else balancing_loss)
        return Losses(loss, masked_lm_loss, order_loss, order_scores.detach())

    def predict(self, batch: Batch) -> torch.Tensor:
        """Scores of all tokens at the M masked positions of a batch, [M, vocabulary]."""
        return self.predictions(read_states(self, batch, first_tokens=False)[0])


class AlbertMaskedLM(AlbertForMaskedLM):
    """The same without the order of segments: no pooler, no second head."""

    def __init__(self, config: AlbertConfig, experts: ExpertsSection | None = None):
        super().__init__(config)
        self.set_attn_implementation(ATTENTION)
        self.expert_term = None if experts is None else ExpertTerm(experts, config.hidden_size)

    def forward(self, batch: Batch) -> Losses:
        """The loss of a batch of B samples with M masked positions."""
        last, balancing_loss = read_states(self, batch, first_tokens=False)  # [M, hidden]
        masked_lm_loss = nn.functional.cross_entropy(self.predictions(last).float(), batch.masked_labels)
        loss = masked_lm_loss if balancing_loss is None else masked_lm_loss + balancing_loss
        return Losses(loss, masked_lm_loss)

    def predict(self, batch: Batch) -> torch.Tensor:
        """Scores of all tokens at the M masked positions of a batch, [M, vocabulary]."""
        return self.predictions(read_states(self, batch, first_tokens=False)[0])


def read_states(
    model: AlbertPretraining | AlbertMaskedLM, batch: Batch, *, first_tokens: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The last layer's output where a head reads it: the M masked positions and, if asked, the B first tokens.

    The layer's feed-forward block is two thirds of a layer and no other position needs it.

    Returns:
        [M, hidden] or [M + B, hidden], and the balancing loss of experts, if the run has them.
    """
    embedded = model.albert.embeddings(batch.input_ids, token_type_ids=batch.token_type_ids)
    mask = None
    if batch.attention_mask is not None:
        # with the skip Transformers checks whether anything is masked, which waits for the GPU
        mask = create_bidirectional_mask(
            config=model.config,
            inputs_embeds=embedded,
            attention_mask=batch.attention_mask,
            allow_is_bidirectional_skip=False,
        )
    hidden = model.albert.encoder.embedding_hidden_mapping_in(embedded)
    # ALBERT's layers share their weights; torch does not type what a module holds
    layer: Any = model.albert.encoder.get_submodule("albert_layer_groups.0.albert_layers.0")
    for _ in range(model.config.num_hidden_layers - 1):
        hidden = layer(hidden, mask)
    attended, _ = layer.attention(hidden, mask)
    samples, width = batch.input_ids.shape
    places = [batch.masked_positions]
    count = [batch.masked_labels != NOT_COUNTED]
    if first_tokens:
        places.append(torch.arange(0, samples * width, width, device=hidden.device))
        count.append(torch.ones_like(places[1], dtype=torch.bool))
    read = attended.flatten(0, 1).index_select(0, torch.cat(places))
    if model.expert_term is None:
        return layer.full_layer_layer_norm(layer.ff_chunk(read) + read), None
    added, balancing_loss = model.expert_term(read, torch.cat(count))
    return layer.full_layer_layer_norm(layer.ff_chunk(read) + added + read), balancing_loss


def build_albert(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> AlbertPretraining | AlbertMaskedLM:
    """With random weights, and sinusoids in place of drawn position embeddings."""
    kind = AlbertPretraining if run.model.learns_order else AlbertMaskedLM
    model = kind(albert_config(run, tokenizer), run.experts)
    positions = model.albert.embeddings.position_embeddings.weight
    with torch.no_grad():
        positions.copy_(sinusoids(*positions.shape, size=run.model.initializer_range))
    return model


def sinusoids(count: int, width: int, *, size: float) -> torch.Tensor:
    """The position embeddings that training begins with (Vaswani et al. 2017, section 3.5), [count, width].

    One matrix turns each of them into the one so many places on, so attention learns at once for all positions to look
    at a neighbour. With drawn vectors it has to learn that for each position: some 15 % more samples to the same loss
    (`benchmarks.learning`'s demo).

    Args:
        size: the root mean square of the elements.
    """
    places = torch.arange(count, dtype=torch.float64)
    pairs = torch.arange((width + 1) // 2, dtype=torch.float64)
    angles = torch.outer(places, LONGEST_WAVE ** (-2 * pairs / width))
    waves = torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[:, :width]
    return (waves * (size * math.sqrt(2))).float()


def albert_config(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> AlbertConfig:
    """The configuration of Transformers for the run's model."""
    return AlbertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=run.data.max_length,
        hidden_act="gelu",  # on a processor 3 times as fast as its approximation by tanh, gelu_new
        classifier_dropout_prob=run.model.hidden_dropout_prob,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id,
        **run.model.shape,
    )
