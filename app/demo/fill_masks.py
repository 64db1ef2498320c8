"""Fills masks in held-out sentences with a saved checkpoint, by nothing but Transformers."""

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from transformers import AutoModelForMaskedLM, AutoTokenizer

from coordinator.checkpoints.checkpoint import read_state
from coordinator.evaluation.probes import likeliest
from swarm.logging.logs import silence_hugging_face

OFTEN = 2000  # tokens of the text within which a word has to come once on average, to be learned in a demo's minutes


@dataclass(frozen=True)
class Prediction:
    """A token that the model predicts, and its probability."""

    token: str
    probability: float


@dataclass(frozen=True)
class FilledMask:
    """A sentence with one word masked, the word that stood there, and the likeliest tokens first."""

    sentence: str
    answer: str
    predictions: tuple[Prediction, ...]


def frequent_tokens(counts: Sequence[int]) -> frozenset[int]:
    """The tokens that come often enough to be learned, by how often each one of the vocabulary occurs."""
    total = sum(counts)
    return frozenset(token for token, count in enumerate(counts) if count * OFTEN >= total > 0)


def fill_masks(
    checkpoint: Path, sentences: Iterable[str], frequent: Collection[int], *, count: int = 5, top: int = 5
) -> list[FilledMask]:
    """Mask one word in each of the first `count` sentences that have a fitting one, and ask the model for it.

    The same checkpoint and sentences give the same result.

    Args:
        frequent: tokens of which the word may be.

    Raises:
        CheckpointError: the folder is not a checkpoint.
    """
    read_state(checkpoint)
    silence_hugging_face()
    tokenizer = AutoTokenizer.from_pretrained(checkpoint, trust_remote_code=False)
    model = AutoModelForMaskedLM.from_pretrained(checkpoint, trust_remote_code=False).eval()
    longest = model.config.max_position_embeddings
    filled: list[FilledMask] = []
    for sentence in sentences:
        if len(filled) == count:
            break
        batch = tokenizer(
            sentence, truncation=True, max_length=longest, return_offsets_mapping=True, return_tensors="pt"
        )
        spans = [(start, end) for start, end in batch.pop("offset_mapping")[0].tolist()]
        fits = [token in frequent for token in batch["input_ids"][0].tolist()]
        position = choose_word(sentence, batch.word_ids(), spans, fits)
        if position is not None:
            filled.append(_fill(model, tokenizer, batch, sentence, position, spans[position], top))
    return filled


def choose_word(
    sentence: str, words: Sequence[int | None], spans: Sequence[tuple[int, int]], fits: Sequence[bool]
) -> int | None:
    """The position of the token to mask: the longest word that is a single fitting token, the first of equals.

    Args:
        sentence: the text.
        words: for each token the number of its word, None for special tokens.
        spans: for each token where it starts and ends in the sentence, in characters.
        fits: for each token whether it may be masked.

    Returns:
        The token's position, or None where no word of letters is a single fitting token.
    """
    extent: dict[int, tuple[int, int]] = {}
    for word, (start, end) in zip(words, spans, strict=True):
        if word is not None:
            first, last = extent.get(word, (start, end))
            extent[word] = min(first, start), max(last, end)
    lengths = {}
    for position, (word, (start, end), is_fit) in enumerate(zip(words, spans, fits, strict=True)):
        if word is None or not is_fit:
            continue
        # without spaces, as a word may begin with a token that is nothing but the space before it
        text = sentence[start:end].strip()
        if _is_word(text) and text == sentence[slice(*extent[word])].strip():
            lengths[position] = len(text)
    return max(lengths, key=lambda position: (lengths[position], -position), default=None)


def render(filled: Sequence[FilledMask]) -> RenderableType:
    """The sentences, each with its masked word and the model's predictions."""
    table = Table("sentence", "was", "the model says")
    for one in filled:
        guesses = Text()
        for prediction in one.predictions:
            style = "bold green" if prediction.token == one.answer else ""
            guesses.append(f"{prediction.token} {prediction.probability:.0%}  ", style)
        table.add_row(Text(one.sentence), Text(one.answer), guesses)
    return table


def _fill(
    model: Any, tokenizer: Any, batch: Any, sentence: str, position: int, span: tuple[int, int], top: int
) -> FilledMask:
    answer = tokenizer.decode([int(batch["input_ids"][0, position])]).strip()
    batch["input_ids"][0, position] = tokenizer.mask_token_id
    with torch.inference_mode():
        logits = model(**batch).logits[0, position]
    predictions = tuple(Prediction(*guess) for guess in likeliest(logits, tokenizer, top))
    start, end = span
    start = end - len(sentence[start:end].lstrip())  # a span may begin with the space before the word
    return FilledMask(f"{sentence[:start]}{tokenizer.mask_token}{sentence[end:]}", answer, predictions)


def _is_word(text: str) -> bool:
    """Whether a text is letters and the signs that go with them, in any script."""
    return bool(text) and all(unicodedata.category(character)[0] in "LM" for character in text)
