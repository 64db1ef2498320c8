"""Measures how well tokenizers fit held-out text, side by side."""

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape
from rich.table import Table
from tokenizers import Tokenizer

from swarm.errors import TokenizerError
from swarm.secret_variables import hub_token
from tokenizer.loading import is_hub_name

# Documents that are tokenized at a time
BATCH = 256


@dataclass(frozen=True)
class TokenizerReport:
    """How a tokenizer cuts a text. Words are separated by white space, before any normalization."""

    name: str
    vocabulary: int
    documents: int
    words: int
    tokens: int
    """Tokens of the text, special ones not counted."""
    unknown: int
    """Tokens of the text that stand for unknown characters."""

    @property
    def tokens_per_word(self) -> float:
        """Fewer are better at the same vocabulary size: more words are tokens of their own."""
        return self.tokens / max(1, self.words)

    @property
    def unknown_rate(self) -> float:
        """Unknown tokens as a fraction of all."""
        return self.unknown / max(1, self.tokens)


def measure(name: str, engine: Tokenizer, documents: Iterable[str]) -> TokenizerReport:
    """Tokenize `documents` and count."""
    unknown_id = _unknown_id(engine)
    count = words = tokens = unknown = 0
    remaining = iter(documents)
    while batch := list(itertools.islice(remaining, BATCH)):
        count += len(batch)
        words += sum(len(document.split()) for document in batch)
        for encoding in engine.encode_batch(batch, add_special_tokens=False):
            tokens += len(encoding.ids)
            unknown += sum(number == unknown_id for number in encoding.ids)
    return TokenizerReport(name, engine.get_vocab_size(), count, words, tokens, unknown)


def read_reference(name: str) -> Tokenizer:
    """A tokenizer to compare with: a tokenizer.json, a folder that holds one, or a Hub repository.

    Raises:
        TokenizerError: there is none, or it is unreadable.
    """
    path = Path(name).expanduser()
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        if file.is_file():
            engine = Tokenizer.from_file(str(file))
        elif is_hub_name(name):
            engine = Tokenizer.from_pretrained(name, token=hub_token())
        else:
            raise TokenizerError(f"{file}: no such tokenizer to compare with; give a tokenizer.json or its folder")
    except TokenizerError:
        raise
    except Exception as error:  # the library knows no narrower class
        reason = str(error).strip().split("\n")[0]
        raise TokenizerError(
            f"{name}: no readable tokenizer to compare with ({reason}); "
            "give a tokenizer.json, its folder or a Hub repository"
        ) from None
    engine.no_truncation()
    engine.no_padding()
    return engine


def table_of(reports: Sequence[TokenizerReport]) -> Table:
    """The reports side by side, one column each."""
    first = reports[0]
    table = Table(title=f"On {first.documents:,} held-out documents of {first.words:,} words")
    table.add_column("")
    for report in reports:
        table.add_column(escape(report.name), justify="right", overflow="fold")
    table.add_row("vocabulary size", *(f"{report.vocabulary:,}" for report in reports))
    table.add_row("tokens per word", *(f"{report.tokens_per_word:.3f}" for report in reports))
    table.add_row("unknown rate", *(f"{report.unknown_rate:.4%}" for report in reports))
    return table


def _unknown_id(engine: Tokenizer) -> int | None:
    """The number of the unknown token; models differ in how they name it."""
    model = json.loads(engine.to_str())["model"]
    if model.get("unk_id") is not None:
        return int(model["unk_id"])
    return engine.token_to_id(model["unk_token"]) if model.get("unk_token") else None
