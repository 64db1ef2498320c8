"""A text for an organizer to begin with."""

import json
from pathlib import Path

WORDS = ("the", "river", "carries", "many", "small", "boats", "and", "all", "together", "come", "down", "to", "sea")


def write_text(path: Path, documents: int = 60, words: int = 250) -> Path:
    """A JSONL file of documents that differ."""

    def document(number: int) -> str:
        return " ".join(WORDS[(number * 7 + word * word) % len(WORDS)] for word in range(words))

    path.write_text("".join(json.dumps({"text": document(number)}) + "\n" for number in range(documents)))
    return path
