"""The demo's text, split into training and held-out files: documentation that comes with Python, or a given corpus."""

import ast
import inspect
import sysconfig
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from corpus.documents import open_documents
from corpus.held_out import EVERY, hold_out
from swarm.errors import DataError
from swarm.run_file import DataSource, RunFile

MOST_CHARACTERS = 100_000_000  # of a corpus that the demo copies; it trains on a fraction of that
SHORTEST = 200  # characters of a document of Python's own text; shorter ones are hardly prose
LANGUAGES = {  # scripts by the first word of their letters' Unicode names; what is not here counts as English
    "BENGALI": "bn",
    "DEVANAGARI": "hi",
    "TAMIL": "ta",
    "TELUGU": "te",
    "ARABIC": "ar",
    "CYRILLIC": "ru",
    "GREEK": "el",
    "CJK": "zh",
    "HANGUL": "ko",
}


def prepare_corpus(run: RunFile, corpus: Path | None, folder: Path) -> str:
    """Write the text's two files into `folder`; returns the language of the text.

    Raises:
        DataError: the corpus is missing, empty, binary, or too small to hold something out.
    """
    documents = list(_limited(python_documentation() if corpus is None else _read(run, corpus)))
    held_out = documents[EVERY - 1 :: EVERY]
    if not held_out:
        raise DataError(
            f"{corpus}: too few documents ({len(documents)}), at least {EVERY} are needed to keep some for the "
            "evaluation; add text (a text file of 200 KB is enough), or give it as JSONL with one document a line"
        )
    hold_out(documents, folder)
    return guess_language("".join(text[:1000] for text in held_out))


def python_documentation() -> Iterator[str]:
    """The language reference and the docstrings of the standard library, a few megabytes of English."""
    from pydoc_data.topics import topics

    yield from filter(None, map(_prose, topics.values()))
    library = Path(sysconfig.get_paths()["stdlib"])
    for file in sorted(library.glob("*.py")) + sorted(library.glob("[a-z]*/*.py")):
        if file.parent.name not in ("site-packages", "dist-packages", "test", "idlelib", "turtledemo"):
            text = _prose("\n\n".join(_docstrings(file)))
            if text:
                yield text


def guess_language(text: str) -> str:
    """The language code for the script that most letters of `text` are in."""
    scripts = Counter(unicodedata.name(char, "?").split()[0].split("-")[0] for char in text if char.isalpha())
    return LANGUAGES.get(scripts.most_common(1)[0][0], "en") if scripts else "en"


def _read(run: RunFile, corpus: Path) -> Iterable[str]:
    source = DataSource(path=str(corpus.absolute()))
    return open_documents(run, [source], seed=0, repeat=False, shuffle=False)


def _limited(documents: Iterable[str]) -> Iterator[str]:
    characters = 0
    for document in documents:
        yield document
        characters += len(document)
        if characters > MOST_CHARACTERS:
            return


def _docstrings(file: Path) -> list[str]:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return []
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, documented)]
    return [text for node in nodes if (text := ast.get_docstring(node))]


def _prose(text: str) -> str:
    """Paragraphs on a line each, so that sentences are whole; empty if there is hardly any text."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in inspect.cleandoc(text).split("\n\n"))
    prose = "\n".join(paragraph for paragraph in paragraphs if any(map(str.isalpha, paragraph)))
    return prose if len(prose) >= SHORTEST else ""
