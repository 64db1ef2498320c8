"""The zero of the scale of held-out losses: the loss of a table of token frequencies, the unigram model.

A model at this loss knows which words are common and nothing else.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean


def unigram_loss(counts: Sequence[int], tokens: Iterable[int]) -> float:
    """The mean of -log p over tokens, in nats, with p from counts to each of which one is added (Laplace).

    Args:
        counts: of every token of the vocabulary in the training text.
        tokens: those at held-out masked positions.

    Raises:
        ValueError: there is no token.
    """
    total = sum(counts) + len(counts)
    return fmean(math.log(total / (counts[token] + 1)) for token in tokens)


def below_unigram(loss: float | None, unigram: float | None) -> float | None:
    """By how many nats a held-out loss is below the unigram loss; None while one of them is not known."""
    return None if loss is None or unigram is None else unigram - loss


def compared(below: float | None) -> str:
    """What stands behind a held-out loss where people read it; empty while it is not known."""
    if below is None:
        return ""
    return f", {abs(below):.2f} {'below' if below >= 0 else 'above'} a table of word frequencies"
