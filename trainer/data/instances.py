"""Samples of two consecutive pieces of a document, swapped half of the time if the model learns their order.

ALBERT, section 3.1: text of one document is packed to the sample's length and cut into A and B at
a sentence boundary; the model tells the right order from the swapped one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from swarm.run_file import DataSection

SPECIAL_TOKENS = 3  # [CLS] A [SEP] B [SEP]
SHORTEST = 8  # tokens; less text than this teaches nothing and is left out


@dataclass(frozen=True)
class Instance:
    """Token ids of segments A and B as the model sees them; `swapped` if B came first in the document."""

    first: Sequence[int]
    second: Sequence[int]
    swapped: bool


def make_instances(
    sentences: Sequence[Sequence[int]], settings: DataSection, rng: np.random.Generator, *, swap: bool = True
) -> Iterator[Instance]:
    """Instances from the tokenized sentences of one document; each token is used at most once.

    Samples hold whole sentences: a segment that broke off in the middle of one would give the order away.
    Only a sentence longer than half a sample is cut.

    Args:
        swap: half of the pairs; without it the same pairs stay in order, for a model that does not learn the order.
    """
    longest = settings.max_length - SPECIAL_TOKENS
    tokens: list[int] = []
    ends: list[int] = []  # where sentences end in `tokens`
    target = _draw_target(longest, settings.short_sample_probability, rng)
    for piece in _pieces(sentences, longest // 2):
        if ends and len(tokens) + len(piece) > target:
            if len(tokens) >= SHORTEST:
                yield _cut(tokens, ends[:-1], rng, swap=swap)
            tokens, ends = [], []
            target = _draw_target(longest, settings.short_sample_probability, rng)
        tokens.extend(piece)
        ends.append(len(tokens))
    if len(tokens) >= SHORTEST:
        yield _cut(tokens, ends[:-1], rng, swap=swap)


def _pieces(sentences: Sequence[Sequence[int]], longest: int) -> Iterator[Sequence[int]]:
    """Sentences of at most `longest` tokens; longer ones in equal pieces, empty ones left out."""
    for sentence in sentences:
        count = -(-len(sentence) // longest)
        for part in range(count):
            yield sentence[len(sentence) * part // count : len(sentence) * (part + 1) // count]


def _cut(tokens: list[int], ends: list[int], rng: np.random.Generator, *, swap: bool) -> Instance:
    """Cut in two at a random one of the sentence boundaries `ends` or, if there is none, in the middle."""
    boundary = ends[int(rng.integers(len(ends)))] if ends else len(tokens) // 2
    earlier, later = tokens[:boundary], tokens[boundary:]
    if rng.random() < 0.5 and swap:
        return Instance(later, earlier, swapped=True)
    return Instance(earlier, later, swapped=False)


def _draw_target(longest: int, short_probability: float, rng: np.random.Generator) -> int:
    """Tokens in the next sample: mostly the longest; a few shorter ones, as fine-tuning has them too."""
    if rng.random() < short_probability:
        return int(rng.integers(min(2 * SHORTEST, longest), longest + 1))
    return longest
