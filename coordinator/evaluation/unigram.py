"""The loss of the unigram model, a table of token frequencies: the baseline for held-out losses.

A model with this loss knows which words are common and nothing else.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean


def unigram_loss(counts: Sequence[int], tokens: Iterable[int]) -> float:
    """The mean of -log p over tokens, in nats, where p comes from counts with add-one (Laplace) smoothing.

    Args:
        counts: of every token of the vocabulary in the training text.
        tokens: those at masked positions of held-out text.

    Raises:
        ValueError: there is no token.
    """
    total = sum(counts) + len(counts)
    return fmean(math.log(total / (counts[token] + 1)) for token in tokens)


def below_unigram(loss: float | None, unigram: float | None) -> float | None:
    """By how many nats a held-out loss is below the unigram loss; None if one of them is unknown."""
    return None if loss is None or unigram is None else unigram - loss


def compared(below: float | None) -> str:
    """A comparison to put after a held-out loss in text; empty if it is unknown."""
    if below is None:
        return ""
    return f", {abs(below):.2f} {'below' if below >= 0 else 'above'} a table of word frequencies"
