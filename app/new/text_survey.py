"""Looks at a run's text: how much there is, and how many tokens its words become.

A local text is read whole, up to `MOST_CHARACTERS`; of a dataset on the Hub only the beginning, and the Hub is asked
how many documents it has, which it does not always know.
"""

import itertools
import random
from collections import Counter
from dataclasses import dataclass

from rich.console import Console

from app.new.sizing import Text, vocabulary_for
from app.new.sources import documents_of, run_with, told_documents
from swarm.display.progress_bar import ProgressBar
from swarm.errors import DataError
from swarm.run_file import DataSource
from tokenizer.alphabet import common_characters
from tokenizer.report import measure
from tokenizer.training import train_tokenizer

MOST_CHARACTERS = {"here": 1_000_000_000, "on the Hub": 20_000_000}  # that are read
SAMPLE_DOCUMENTS = 400  # a tokenizer is trained on half of them
SAMPLE_CHARACTERS = 5_000  # of each of them
LEAST_DOCUMENTS, LEAST_CHARACTERS = 20, 50_000  # of a text; less teaches nothing that can be measured
SHOW_EVERY = 100  # documents


@dataclass(frozen=True)
class Seen:
    """What was read of a text."""

    source: DataSource
    documents: int
    characters: int
    sample: tuple[str, ...]  # beginnings of documents, drawn at random from those that were read
    all_documents: float  # of the whole text; infinite: more than were read, and not known


@dataclass(frozen=True)
class Counted:
    """A text in figures, and its tokens for each word."""

    text: Text
    tokens_per_word: float


def look(source: DataSource, console: Console | None = None) -> Seen:
    """Read a text.

    Args:
        console: where progress is shown.

    Raises:
        DataError: it is missing, unreadable, or too small.
    """
    most, rng = MOST_CHARACTERS["here" if source.hub is None else "on the Hub"], random.Random(0)
    documents = characters = 0
    sample: list[str] = []
    with ProgressBar(console, f"reading {source.name}") as bar:
        for text in documents_of(source):
            documents, characters = documents + 1, characters + len(text)
            if len(sample) < SAMPLE_DOCUMENTS:
                sample.append(text[:SAMPLE_CHARACTERS])
            elif (place := rng.randrange(documents)) < SAMPLE_DOCUMENTS:
                sample[place] = text[:SAMPLE_CHARACTERS]
            if documents % SHOW_EVERY == 0:
                bar.update(documents, figures=f"{documents:,} documents, {characters / 1e6:,.0f} million characters")
            if characters >= most:
                total = max(documents, told_documents(source))
                break
        else:
            total = documents
    if documents < LEAST_DOCUMENTS or characters < LEAST_CHARACTERS:
        raise DataError(
            f"{source.name}: too little text, {documents:,} documents with {characters:,} characters; at least "
            f"{LEAST_DOCUMENTS} and {LEAST_CHARACTERS:,} are needed"
        )
    rng.shuffle(sample)
    return Seen(source, documents, characters, tuple(sample), total)


def count_tokens(seen: Seen, language: str) -> Counted:
    """Train a tokenizer on half of the sample, and count the tokens of the other half.

    Raises:
        TokenizerError: the trainer failed on this text.
    """
    times = seen.all_documents / seen.documents  # as much text as was read
    alphabet = common_characters(Counter(itertools.chain.from_iterable(seen.sample)))
    vocabulary = vocabulary_for(times * seen.characters, len(alphabet))
    taught, other = seen.sample[::2], seen.sample[1::2]
    tokenizer = train_tokenizer(run_with(seen.source, language, vocabulary), taught)
    found = measure("", tokenizer.backend_tokenizer, other)
    tokens = found.tokens / sum(map(len, other)) * seen.characters
    text = Text(vocabulary, times * tokens, tokens / seen.documents)
    return Counted(text, found.tokens_per_word)
