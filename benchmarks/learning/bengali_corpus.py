"""The text of the Bengali hour (docs/results.md): a corpus, and the training texts of two tasks without their labels.

    python -m benchmarks.learning.bengali_corpus FOLDER corpus.jsonl

The folder holds `train.jsonl`, `ner/train.conll` and `sentiment/train.jsonl`. Ten sentences of a task make a document.
"""

import json
import random
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.support import command
from downstream.data.conll import read_conll
from swarm.files import write_file

SENTENCES = 10  # of a document
SEED = 0  # of the order of the documents, one in twenty of which the demo keeps to measure on


def main(
    folder: Annotated[Path, typer.Argument(help="Where the texts are.")],
    out: Annotated[Path, typer.Argument(help="The JSONL file to write.")],
) -> None:
    """Put them together."""
    documents = [json.loads(line) for line in _lines(folder / "train.jsonl")]
    names = [" ".join(example.inputs) for example in read_conll(folder / "ner" / "train.conll", "train").examples]
    opinions = [" ".join(json.loads(line)["text"].split()) for line in _lines(folder / "sentiment" / "train.jsonl")]
    for source, sentences in (("ner/train", names), ("sentiment/train", opinions)):
        parts = (sentences[first : first + SENTENCES] for first in range(0, len(sentences), SENTENCES))
        documents += [{"text": "\n".join(part), "source": source} for part in parts]
    random.Random(SEED).shuffle(documents)
    write_file(out, "".join(json.dumps(document, ensure_ascii=False) + "\n" for document in documents))
    typer.echo(f"{len(documents):,} documents in {out}")


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    command.run(main)
