"""Labels of words as labels of subwords, and back.

The first subword of a word carries the word's label; the others, and special tokens, carry none (Devlin et al. 2019,
section 5.3).
"""

from collections.abc import Collection, Iterable, Sequence

NO_LABEL = -100  # what torch's cross entropy leaves out

Window = tuple[Sequence[str], Sequence[int | None]]
"""What was predicted for each token, and for each token the number of its word, None for special tokens."""


def align_labels(labels: Sequence[int], words: Sequence[int | None], spaces: Collection[int] = ()) -> list[int]:
    """One label for each token.

    Where the first token of a word is nothing but the space before it, as before punctuation and digits, the next
    one carries the label too: pipelines of Transformers begin a word after each space and read its first token.

    Args:
        labels: the label number of each word.
        words: for each token the number of its word, None for special tokens; words may be missing where a text
            was cut, or where normalization left nothing of a word.
        spaces: the positions of tokens that are a space alone.

    Returns:
        The word's label at its first token, `NO_LABEL` elsewhere.
    """
    aligned = [NO_LABEL] * len(words)
    for word, position in first_tokens(words).items():
        aligned[position] = labels[word]
        if position in spaces and position + 1 < len(words) and words[position + 1] == word:
            aligned[position + 1] = labels[word]
    return aligned


def first_tokens(words: Sequence[int | None]) -> dict[int, int]:
    """The position of each word's first token, by the number of the word; words without a token are absent."""
    positions: dict[int, int] = {}
    for position, word in enumerate(words):
        if word is not None:
            positions.setdefault(word, position)
    return positions


def labels_of_words(windows: Iterable[Window], count: int, *, absent: str) -> tuple[str, ...]:
    """The label that was predicted for each of `count` words, `absent` for a word without a token.

    Where windows overlap, a word has the label from the one in which its first token is farthest from both ends.
    """
    found: dict[int, tuple[int, str]] = {}
    for predicted, words in windows:
        for word, position in first_tokens(words).items():
            room = min(position, len(words) - 1 - position)
            if word not in found or room > found[word][0]:
                found[word] = room, predicted[position]
    return tuple(found[word][1] if word in found else absent for word in range(count))
