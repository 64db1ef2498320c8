"""Fills the masks of fixed sentences, so that anyone can see whether the model learns the language."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from coordinator.ledger.answers import FilledSentence
from swarm.errors import RunFileError
from swarm.run_file import MASK, RunFile
from trainer.data import Batch
from trainer.model import PretrainingModel

BEST = 5  # predictions that are kept


@dataclass(frozen=True)
class Probe:
    """A sentence with a mask, as tokens; `position` is that of the mask."""

    text: str
    tokens: tuple[int, ...]
    position: int


def read_probes(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> list[Probe]:
    """The sentences of the run file, tokenized.

    Raises:
        RunFileError: one of them is longer than `data.max_length`.
    """
    probes = []
    for text in run.coordinator.probes:
        tokens = tokenizer(text.replace(MASK, str(tokenizer.mask_token)))["input_ids"]
        if len(tokens) > run.data.max_length:
            raise RunFileError(
                f"{run.name}: coordinator.probes: {text!r} has {len(tokens)} tokens, but data.max_length is "
                f"{run.data.max_length}; shorten the sentence"
            )
        probes.append(Probe(text, tuple(tokens), tokens.index(tokenizer.mask_token_id)))
    return probes


@torch.no_grad()
def fill(model: PretrainingModel, tokenizer: PreTrainedTokenizerFast, probes: Sequence[Probe]) -> list[FilledSentence]:
    """The likeliest tokens for each mask. The mode of the model is restored."""
    was_training = model.training
    model.eval()
    try:
        filled = []
        for probe in probes:
            tokens = torch.tensor([probe.tokens], device=model.device)
            batch = Batch(
                input_ids=tokens,
                token_type_ids=torch.zeros_like(tokens),
                attention_mask=None,
                sentence_order_label=tokens.new_zeros(1),
                masked_positions=tokens.new_tensor([probe.position]),
                masked_labels=tokens.new_zeros(1),
            )
            scores = model.predict(batch)[0]
            filled.append(FilledSentence.of(probe.text, likeliest(scores, tokenizer, BEST)))
    finally:
        model.train(was_training)
    return filled


def likeliest(scores: torch.Tensor, tokenizer: PreTrainedTokenizerBase, count: int) -> list[tuple[str, float]]:
    """The tokens with the highest scores [vocabulary] as text, with their probabilities, best first.

    The token of a bare space is left out, for it shows no text. A token that begins a word and one that continues it
    may have the same text; the likelier one is kept.
    """
    best = scores.float().softmax(-1).topk(min(4 * count, len(scores)))
    found: dict[str, float] = {}
    for token, probability in zip(best.indices.tolist(), best.values.tolist(), strict=True):
        text = str(tokenizer.decode([token])).strip()
        if text:
            found.setdefault(text, probability)
    return list(found.items())[:count]
