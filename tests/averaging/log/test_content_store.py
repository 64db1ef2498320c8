"""What is held by digest: whole or not at all, whatever happens to the process and the disk."""

import hashlib
import os
import stat
from pathlib import Path

import pytest

from averaging.log.content_store import Store
from swarm.errors import StorageError
from tests.swarm.disk_faults import killed_after, small_disk

LIMIT = 1000  # bytes


def named(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def put(store: Store, content: bytes) -> str:
    store.put(named(content), content)
    return named(content)


@pytest.fixture(params=["in memory", "in a folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store(None if request.param == "in memory" else tmp_path / "contents", LIMIT)


def test_what_was_put_is_there_until_it_is_forgotten(store: Store) -> None:
    one, other = put(store, b"one"), put(store, b"other")
    put(store, b"one")
    assert (store.get(one), store.get(other), store.get(named(b"none"))) == (b"one", b"other", None)
    assert (set(store.digests), store.has(one)) == ({one, other}, True)
    store.forget([one, named(b"none")])
    store.forget([one])
    assert (store.get(one), store.has(one), set(store.digests)) == (None, False, {other})
    put(store, b"one")
    store.flush()
    assert store.get(one) == b"one"


@pytest.mark.parametrize(
    "name", ["", "../../escaped", "/etc/escaped", "A" * 64, "a" * 63, "a" * 65, "a" * 64 + "\n", "٣" * 64, "." * 64]
)
def test_a_name_that_is_no_digest_leads_nowhere(store: Store, tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not a SHA-256"):
        store.put(name, b"content")
    assert (store.get(name), store.has(name), set(store.digests)) == (None, False, set())
    store.forget([name])
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


def test_memory_has_a_limit_and_says_so(tmp_path: Path) -> None:
    store = Store(None, LIMIT)
    first = put(store, bytes(600))
    with pytest.raises(
        StorageError, match=r"^the memory for updates and snapshots is full: 500 bytes .* 600 .* 1,000; "
    ):
        put(store, b"x" * 500)
    assert (set(store.digests), store.get(first)) == ({first}, bytes(600))
    store.forget([first])
    put(store, b"x" * 500)


def test_a_folder_holds_more_than_the_memory(tmp_path: Path) -> None:
    store = Store(tmp_path, LIMIT)
    contents = [bytes([index]) * 400 for index in range(10)]
    digests = [put(store, content) for content in contents]
    assert set(store.digests) == set(digests)
    assert [store.get(digest) for digest in digests] == contents
    for path in tmp_path.iterdir():
        path.unlink()
    assert [store.get(digest) for digest in digests] == [None] * 8 + contents[8:]  # those used last are in memory


def test_a_content_larger_than_the_memory_is_in_the_folder(tmp_path: Path) -> None:
    store = Store(tmp_path, LIMIT)
    digest = put(store, bytes(5000))
    assert store.get(digest) == bytes(5000)
    assert Store(tmp_path, 0).get(digest) == bytes(5000)


def test_a_restart_finds_what_is_whole_and_drops_the_rest(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path, LIMIT)
    whole, cut, flipped, empty = (put(store, text) for text in (b"whole", b"cut short", b"flipped", b"emptied"))
    (tmp_path / cut).write_bytes(b"cut sh")
    (tmp_path / flipped).write_bytes(b"flippee")
    (tmp_path / empty).write_bytes(b"")
    (tmp_path / f".{whole}.partial-new-1-1").write_bytes(b"who")
    (tmp_path / "note.txt").write_text("of a person")
    again = Store(tmp_path, LIMIT)
    assert (set(again.digests), again.get(whole)) == ({whole}, b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([whole, "note.txt"])
    assert sum("was dropped: its content is another one" in line for line in caplog.messages) == 3


def test_what_breaks_while_it_is_held_is_not_given_out(tmp_path: Path) -> None:
    store = Store(tmp_path, 0)
    digest, other = put(store, b"content"), put(store, b"other")
    (tmp_path / digest).write_bytes(b"c0ntent")
    (tmp_path / other).unlink()
    assert (store.get(digest), store.has(digest), store.get(other), store.has(other)) == (None, False, None, False)
    assert not store.digests
    put(store, b"content")
    assert store.get(digest) == b"content"


def test_others_may_not_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "peer" / "contents"
    folder.mkdir(parents=True, mode=0o755)
    digest = put(Store(folder, LIMIT), b"content")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / digest).stat().st_mode) == 0o600


def test_flushing_reaches_the_disk_once_for_each_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    fsync = os.fsync

    def noted(file: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{file}").readlink().name)
        fsync(file)

    monkeypatch.setattr(os, "fsync", noted)
    store = Store(tmp_path / "contents", LIMIT)
    one, other = sorted([put(store, b"one"), put(store, b"other")])
    assert flushed == []
    store.flush()
    assert (sorted(flushed[:-1]), flushed[-1]) == ([one, other], "contents")
    store.flush()
    put(store, b"one")
    store.forget([put(store, b"gone")])
    store.flush()
    assert len(flushed) == 3


def test_a_full_disk_leaves_the_others_and_says_so(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 256) as disk:
        store = Store(disk / "contents", 0)
        with pytest.raises(StorageError) as caught:
            for index in range(100):
                put(store, bytes([index]) * 10_000)
        held = list(store.digests)
        refused = named(bytes([len(held)]) * 10_000)
        assert str(caught.value) == f"{disk}/contents/{refused}: could not be saved, the disk is full; free some space"
        assert 5 < len(held) < 100
        assert set(store.digests) == set(held) == set(Store(disk / "contents", 0).digests)
        assert {path.name for path in (disk / "contents").iterdir()} == set(held)
        store.forget(held[:3])
        put(store, bytes([len(held)]) * 10_000)
        assert store.has(refused)


WRITER = """
    import hashlib, sys
    from pathlib import Path
    from averaging.log.content_store import Store

    store = Store(Path(sys.argv[1]), 0)
    for index in range(int(sys.argv[2]), 10**6):
        content = index.to_bytes(4, "little") * 200_000
        digest = hashlib.sha256(content).hexdigest()
        store.put(digest, content)
        print(digest)
        store.forget([hashlib.sha256((index - 20).to_bytes(4, "little") * 200_000).hexdigest()])
"""


def test_a_kill_at_any_moment_leaves_whole_contents(tmp_path: Path) -> None:
    index = 20
    for lines in (1, 7, 30):
        said = killed_after(WRITER, lines, tmp_path, index)
        for path in tmp_path.iterdir():
            assert path.name.startswith(".") or named(path.read_bytes()) == path.name
        assert Store(tmp_path, 0).digests >= set(said[-19:])
        index += len(said) + 5
