"""Decides which characters get a token of their own, and replaces all others in the training text.

The Unigram trainer keeps every character that it sees. On a web corpus that spends the vocabulary on foreign
characters that hardly occur: 9,068 of sahajBERT's 32,000 tokens are single characters. SentencePiece leaves
out rare characters by their share of the text (`character_coverage`); so does this.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from swarm.errors import TokenizerError

# A character has to make up this share of the text; the rarest Bengali letter makes up 1 in 100,000
RAREST = 1e-6
# The alphabet is decided on so many characters at the beginning of the text, which are held in memory
SAMPLE_CHARACTERS = 20_000_000
# The characters of the language itself are added if they take at most this share of the vocabulary
CERTAIN_SHARE = 1 / 4
# The trainer's time grows with the square of the longest word; on one of 300,000 characters it crashes
LONGEST_WORD = 1_000

PRINTABLE_ASCII = string.ascii_letters + string.digits + string.punctuation


def certain_characters(language_alphabet: str, *, lowercase: bool, vocab_size: int) -> tuple[str, ...]:
    """Characters that get a token even if the training text lacks them, so that it is known later."""
    characters = set(PRINTABLE_ASCII + language_alphabet)
    if lowercase:
        characters = {character.lower() for character in characters}
    if len(characters) <= vocab_size * CERTAIN_SHARE:
        return tuple(sorted(characters))
    return ()


def with_common_characters(
    texts: Iterable[str], certain: Iterable[str], decided: Callable[[frozenset[str]], None]
) -> Iterator[str]:
    """The texts, with blanks in place of rare characters and inside endless words.

    Args:
        texts: training text, the beginning of which is taken for a fair sample.
        certain: characters that stay, however rare.
        decided: called with the alphabet before the first text is yielded; may raise to stop the training.

    Raises:
        TokenizerError: there is no text.
    """
    remaining = iter(texts)
    counts: Counter[str] = Counter()
    sample, size = [], 0
    for text in remaining:
        sample.append(text)
        counts.update(text)
        size += len(text)
        if size >= SAMPLE_CHARACTERS:
            break
    if not counts:
        raise TokenizerError("there is no text to train a tokenizer on; look at data.train in the run file")
    alphabet = common_characters(counts) | frozenset(certain)
    decided(alphabet)
    rare = re.compile(f"[^\\s{re.escape(''.join(sorted(alphabet)))}]")
    endless = re.compile(f"\\S{{{LONGEST_WORD}}}")
    # emptied as it is read, so that the sample does not stay in memory
    sample.reverse()
    for text in chain(_drained(sample), remaining):
        yield endless.sub(r"\g<0> ", rare.sub(" ", text))


def common_characters(counts: Counter[str]) -> frozenset[str]:
    """The characters that make up at least `RAREST` of the counted text."""
    least = counts.total() * RAREST
    return frozenset(character for character, count in counts.items() if count >= least)


def _drained(texts: list[str]) -> Iterator[str]:
    while texts:
        yield texts.pop()
