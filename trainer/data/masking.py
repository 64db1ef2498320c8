"""Which tokens the model has to predict: spans of 1 to n tokens, a set fraction of each sample.

ALBERT, section 3.1 (n-gram masking, p(n) proportional to 1/n) and BERT, section 3.1 (80 % become
[MASK], 10 % a random token, 10 % stay as they are). No loop over rows or spans.
"""

import numpy as np
from numpy.typing import NDArray

MASKED, RANDOM = 0.8, 0.1  # of the chosen tokens; the rest stays (BERT, section 3.1)


def choose_masked(
    maskable: NDArray[np.bool_], fraction: float, max_ngram: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Choose spans in each row until exactly the wanted number of tokens is covered.

    Every position starts a span of random length with a random priority; a token's priority is the
    best among the spans that cover it, and the best tokens win. So spans are taken whole, one after
    the other in random order, and only the last one of a row may be cut short.

    Args:
        maskable: [B, L], False on padding and special tokens; spans do not reach across those.
        fraction: of the maskable tokens of a row; at least one is chosen where there is any.
        max_ngram: longest span.

    Returns:
        [B, L], True on the chosen tokens.
    """
    priority = np.where(maskable, rng.random(maskable.shape), np.inf)
    lengths = _draw_lengths(maskable.shape, max_ngram, rng)
    best = priority.copy()
    reachable = maskable.copy()  # whether the span that started `offset` tokens before still goes on here
    for offset in range(1, max_ngram):
        reachable[:, offset:] = reachable[:, offset - 1 : -1] & maskable[:, offset:]
        reachable[:, :offset] = False
        covers = reachable[:, offset:] & (lengths[:, :-offset] > offset)
        best[:, offset:] = np.minimum(best[:, offset:], np.where(covers, priority[:, :-offset], np.inf))
    count = maskable.sum(axis=1)
    wanted = np.where(count > 0, np.maximum(1, np.rint(count * fraction)), 0).astype(np.int64)
    # within a span all tokens have the same priority; a stable sort takes them from the left
    order = np.argsort(best, axis=1, kind="stable")
    chosen = np.zeros_like(maskable)
    np.put_along_axis(chosen, order, np.arange(maskable.shape[1]) < wanted[:, None], axis=1)
    return chosen & maskable


def corrupt(
    tokens: NDArray[np.int64], mask_token: int, ordinary: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """What the model sees in place of the chosen tokens [M]; `ordinary` are the tokens to draw from."""
    draw = rng.random(len(tokens))
    seen = np.where(draw < MASKED, mask_token, tokens)
    random = (draw >= MASKED) & (draw < MASKED + RANDOM)
    seen[random] = rng.choice(ordinary, size=int(random.sum()))
    return seen


def _draw_lengths(shape: tuple[int, ...], max_ngram: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Span lengths 1 to max_ngram with probabilities proportional to 1/n."""
    weights = 1.0 / np.arange(1, max_ngram + 1)
    return 1 + np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(shape), side="right")
