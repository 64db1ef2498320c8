"""Remote sources in streams of documents: slow, hanging, left, wrong."""

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from corpus import remote_reader
from corpus.documents import DocumentStream
from corpus.local_files import LocalFiles
from corpus.remote_reader import RemoteReader
from corpus.source import Source
from swarm.errors import DataError
from swarm.run_file import DataSource
from tests.support.waiting import PATIENCE, wait_until


def mixed(*sources: Source, repeat: bool = False) -> DocumentStream:
    return DocumentStream(
        [(source, 1.0) for source in sources],
        seed=0,
        repeat=repeat,
        buffer=None,
        now=time.monotonic,
        sleep=time.sleep,
    )


class Hanging:
    """A remote source that says nothing until it is let go."""

    name, is_remote = "hanging", True

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def one_pass(self, order: object) -> Iterator[str]:
        self.let_go.wait()
        yield "late"


def test_a_remote_source_that_hangs_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("here")
    hanging = Hanging()
    reading = iter(mixed(LocalFiles(tmp_path / "a.txt", DataSource(path="a.txt")), hanging, repeat=True))
    assert set(itertools.islice(reading, 1_000)) == {"here"}
    hanging.let_go.set()
    assert "late" in reading


def test_a_stream_that_is_left_ends_its_threads(tmp_path: Path) -> None:
    class Endless:
        name, is_remote = "endless", True

        def one_pass(self, order: object) -> Iterator[str]:
            return itertools.repeat("again")

    def readers() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "documents"]

    before = set(readers())
    reading = iter(mixed(Endless()))
    next(reading)
    (started,) = set(readers()) - before
    reading.close()  # type: ignore[attr-defined]
    started.join(timeout=PATIENCE)
    assert not started.is_alive()


def test_long_documents_are_read_ahead_until_they_have_so_many_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_reader, "MOST_CHARACTERS", 10)
    read: list[str] = []

    def words() -> Iterator[str]:
        for _ in range(1_000):
            read.append("word")
            yield "word"

    reader = RemoteReader(words())
    for drawn in range(5):
        wait_until(lambda ahead=drawn + 4: len(read) >= ahead, "what is read ahead")  # type: ignore[misc]
        assert len(read) == drawn + 4, "three words, and the one for which there is no room"
        assert next(reader) == "word"
    reader.close()
    assert not reader._thread.is_alive()


def test_a_wrong_remote_source_stops_the_stream() -> None:
    class Wrong:
        name, is_remote = "wrong", True

        def one_pass(self, order: object) -> Iterator[str]:
            raise DataError("wrong: no column 'text'")
            yield ""

    with pytest.raises(DataError, match="wrong: no column 'text'"):
        list(mixed(Wrong()))
