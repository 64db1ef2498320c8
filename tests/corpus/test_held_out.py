"""One document in so many is kept from training."""

import json
from pathlib import Path

import pytest

from corpus.held_out import EVERY, HELD_OUT, TEXT_FILES, TRAINING, hold_out

DOCUMENTS = [f"document {number} of নদী" for number in range(1, 5 * EVERY)]


def documents(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("most", "kept"), [(float("inf"), 4), (2, 2)])
def test_every_document_is_in_one_of_the_two_files(tmp_path: Path, most: float, kept: int) -> None:
    hold_out(DOCUMENTS, tmp_path, most=most)
    expected = DOCUMENTS[EVERY - 1 :: EVERY][:kept]
    assert documents(tmp_path / HELD_OUT) == expected
    assert documents(tmp_path / TRAINING) == [one for one in DOCUMENTS if one not in expected]


def test_nothing_is_written_where_the_text_cannot_be_read_to_its_end(tmp_path: Path) -> None:
    def broken():
        yield from DOCUMENTS
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        hold_out(broken(), tmp_path)
    assert not any((tmp_path / name).exists() for name in TEXT_FILES)
