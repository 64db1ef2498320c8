"""Keeps a part of a text from training, to measure losses on: two JSONL files instead of one text."""

import json
import math
from collections.abc import Iterable
from pathlib import Path

from swarm.files import whole_file

EVERY = 20  # one document in so many is kept
TEXT_FILES = TRAINING, HELD_OUT = "train.jsonl", "validation.jsonl"


def hold_out(documents: Iterable[str], folder: Path, *, most: float = math.inf) -> None:
    """Write documents into the two `TEXT_FILES` of a folder: one in `EVERY` into the second, up to `most`.

    Raises:
        StorageError: the files cannot be written.
    """
    with (
        whole_file(folder / TRAINING) as training,
        whole_file(folder / HELD_OUT) as held_out,
        training.open("w", encoding="utf-8") as many,
        held_out.open("w", encoding="utf-8") as few,
    ):
        for number, text in enumerate(documents, start=1):
            is_kept = number % EVERY == 0 and number <= EVERY * most
            (few if is_kept else many).write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
