"""Looks at a run's text: how much there is, and how many tokens its words become.

A local text that has to be cut in two is cut while it is looked at, so that it is read once; at most
`MOST_CHARACTERS` of any other text are read. The Hub is asked how many documents a dataset has, which it does not
always know.
"""

import itertools
import math
import random
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from app.new.sizing import Text, vocabulary_for
from app.new.sources import documents_of, run_with, told_documents
from corpus.held_out import hold_out
from swarm.display.progress_bar import ProgressBar
from swarm.errors import DataError
from swarm.run_file import DataSource
from tokenizer.alphabet import common_characters
from tokenizer.report import measure
from tokenizer.training import train_tokenizer

MOST_CHARACTERS = {"here": 1_000_000_000, "on the Hub": 20_000_000}  # that are read
SAMPLE_DOCUMENTS = 400  # a tokenizer is trained on half of them
SAMPLE_CHARACTERS = 5_000  # of each of them
LEAST_DOCUMENTS, LEAST_CHARACTERS = 20, 50_000  # of a text
SHOW_EVERY = 100  # documents
MOST_HELD_OUT = 2_000  # documents of a local text that are kept from training


@dataclass(frozen=True)
class Seen:
    """What was read of a text."""

    source: DataSource
    documents: int
    characters: int
    sample: tuple[str, ...]  # beginnings of documents, drawn at random from those that were read
    all_documents: float  # of the whole text; infinite: more than were read, and not known


def look(source: DataSource, console: Console | None = None, cut_into: Path | None = None) -> Seen:
    """Read a text.

    Args:
        console: where progress is shown.
        cut_into: folder in which to write the text's training and held-out parts; unchanged if this raises.

    Raises:
        DataError: it is missing, unreadable, or too small.
        StorageError: the parts cannot be written.
    """
    most = MOST_CHARACTERS["here" if source.hub is None else "on the Hub"] if cut_into is None else math.inf
    rng, sample = random.Random(0), list[str]()
    documents = characters = 0
    total = 0.0

    def read() -> Iterator[str]:
        nonlocal documents, characters, total
        for text in documents_of(source):
            documents, characters = documents + 1, characters + len(text)
            if len(sample) < SAMPLE_DOCUMENTS:
                sample.append(text[:SAMPLE_CHARACTERS])
            elif (place := rng.randrange(documents)) < SAMPLE_DOCUMENTS:
                sample[place] = text[:SAMPLE_CHARACTERS]
            if documents % SHOW_EVERY == 0:
                bar.update(documents, figures=f"{documents:,} documents, {characters / 1e6:,.0f} million characters")
            yield text
            if characters >= most:
                total = told_documents(source)
                break
        check_enough(source, documents, characters)

    with ProgressBar(console, f"reading {source.name}") as bar:
        if cut_into is None:
            deque(read(), maxlen=0)
        else:
            hold_out(read(), cut_into, most=MOST_HELD_OUT)
    rng.shuffle(sample)
    return Seen(source, documents, characters, tuple(sample), max(documents, total))


def check_enough(source: DataSource, documents: int, characters: int) -> None:
    """Refuse a text that teaches nothing that can be measured.

    Raises:
        DataError: it is too small.
    """
    if documents < LEAST_DOCUMENTS or characters < LEAST_CHARACTERS:
        raise DataError(
            f"{source.name}: too little text, {documents:,} documents with {characters:,} characters; at least "
            f"{LEAST_DOCUMENTS} and {LEAST_CHARACTERS:,} are needed"
        )


def count_tokens(seen: Seen, language: str) -> Text:
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
    return Text(vocabulary, times * tokens, tokens / seen.documents, found.tokens_per_word)
