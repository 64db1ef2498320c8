"""CoNLL files: one token a line with its tag in the last column, a blank line after each sentence.

Columns are separated by tabs or, in lines without one, by spaces, as in CoNLL-2003 (Tjong Kim Sang & De Meulder
2003) with its four and in files of just token and tag. Lines that begin a document (`-DOCSTART-`) and comments about
a sentence (`# id ...`) carry no token.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from downstream.data.examples import Example, Split, numbered_lines
from downstream.tasks.tags import check_tag
from swarm.errors import DataError

# Annotators forget a tag now and then. Such sentences are left out and counted, but more than this fraction of all is
# not a slip: the file is broken.
MOST_LEFT_OUT = 0.01


@dataclass
class _Sentence:
    """A sentence that is being read."""

    place: str
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    fault: str | None = None


def read_conll(path: Path, name: str) -> Split:
    """The sentences of a CoNLL file as the split called `name`.

    A sentence in which the column of a tag is there but empty is left out.

    Raises:
        DataError: the file cannot be read, a line has no column for a tag, a tag is of no scheme, or more than
            `MOST_LEFT_OUT` of the sentences would be left out.
    """
    examples, left_out = [], []
    for sentence in _sentences(path, numbered_lines(path)):
        if sentence.fault is not None:
            left_out.append(sentence.fault)
        else:
            examples.append(Example(tuple(sentence.words), tuple(sentence.tags), sentence.place))
    if len(left_out) > MOST_LEFT_OUT * (len(left_out) + len(examples)):
        raise DataError(
            f"{left_out[0]}; correct it ({len(left_out)} of {len(left_out) + len(examples)} sentences are like this)"
        )
    return Split(name, str(path), tuple(examples), tuple(left_out))


def _sentences(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[_Sentence]:
    current: _Sentence | None = None
    for number, line in lines:
        if line.strip() and not _is_comment(line):
            current = current or _Sentence(f"{path}:{number}")
            _add_token(current, line, f"{path}:{number}")
        elif not line.strip() and current is not None:
            yield current
            current = None
    if current is not None:
        yield current


def _is_comment(line: str) -> bool:
    return line.startswith(("-DOCSTART-", "# id "))


def _add_token(sentence: _Sentence, line: str, place: str) -> None:
    columns = line.split("\t") if "\t" in line else line.split()
    word, tag = columns[0].strip(), columns[-1].strip()
    if len(columns) < 2:
        raise DataError(f"{place}: {line.strip()!r} has no tag; each line must be a token, a tab and its tag")
    if not word:
        raise DataError(f"{place}: the tag {tag!r} has no token; each line must be a token, a tab and its tag")
    if not tag:
        sentence.fault = sentence.fault or f"{place}: the tag of {word!r} is empty"
        return
    check_tag(tag, place)
    sentence.words.append(word)
    sentence.tags.append(tag)
