"""Crash-safe files: after an error, a kill or a full disk there is the old one or the new one, whole."""

import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from swarm.errors import DataError, StorageError
from swarm.files import check_writable, keep_private, lookup_errors, remove_partials, whole_directory, write_file
from swarm.identity import load_identity
from tests.swarm.disk_faults import killed_after, small_disk

MEBIBYTE = 1 << 20


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def save(path: Path, content: str) -> None:
    with whole_directory(path) as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "model.bin").write_text(content)


def saved(path: Path) -> str:
    return (path / "deep" / "model.bin").read_text()


def test_a_file_is_written_and_replaced(tmp_path):
    write_file(tmp_path / "new" / "note.txt", "সহজ")
    write_file(tmp_path / "new" / "note.txt", b"simple")
    assert (tmp_path / "new" / "note.txt").read_bytes() == b"simple"
    assert names(tmp_path / "new") == ["note.txt"]


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_another_process_has_just_written_may_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
):
    if not has_links:
        monkeypatch.setattr(os, "link", Mock(side_effect=PermissionError(1, "Operation not permitted")))
    for content in ("first", "second"):
        write_file(tmp_path / "key", content, mode=0o600, replaces=False)
    assert (tmp_path / "key").read_text() == "first" and [path.name for path in tmp_path.iterdir()] == ["key"]
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_a_folder_is_written_and_replaced(tmp_path):
    save(tmp_path / "checkpoint", "first")
    save(tmp_path / "checkpoint", "second")
    assert saved(tmp_path / "checkpoint") == "second"
    assert names(tmp_path) == ["checkpoint"]


def test_a_link_to_a_folder_stays_and_the_folder_is_replaced(tmp_path):
    save(tmp_path / "real", "first")
    (tmp_path / "link").symlink_to("real")
    save(tmp_path / "link", "second")
    assert (tmp_path / "link").is_symlink() and saved(tmp_path / "real") == "second"
    assert names(tmp_path) == ["link", "real"]


def test_where_nothing_can_be_written_is_known_before(tmp_path):
    check_writable(tmp_path / "new" / "deep")
    (tmp_path / "file").touch()
    for place in ("file/model", "x" * 300 + "/model"):
        with pytest.raises(StorageError, match="choose another folder"):
            check_writable(tmp_path / place)


@pytest.mark.parametrize("given", ["x" * 300, "~nobody-at-all/text"])
def test_a_path_that_cannot_be_looked_at_is_one_line(given):
    with (
        pytest.raises(DataError, match=f"^{given[:20]}.*: cannot be read \\(.*correct the path"),
        lookup_errors(given, DataError),
    ):
        Path(given).expanduser().exists()


def test_a_folder_has_no_name_before_it_is_whole(tmp_path):
    with whole_directory(tmp_path / "checkpoint") as folder:
        (folder / "model.bin").write_text("new")
        assert not (tmp_path / "checkpoint").exists()
    assert (tmp_path / "checkpoint" / "model.bin").exists()


@pytest.mark.parametrize("error", [ValueError("a bug"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
def test_an_error_in_the_middle_leaves_the_old_folder_whole(tmp_path, error):
    save(tmp_path / "checkpoint", "old")
    with pytest.raises(type(error)), whole_directory(tmp_path / "checkpoint") as folder:
        (folder / "model.bin").write_text("half")
        raise error
    assert saved(tmp_path / "checkpoint") == "old"
    assert names(tmp_path) == ["checkpoint"]


def test_an_error_of_the_network_is_not_called_one_of_storage(tmp_path):
    with pytest.raises(ConnectionResetError), whole_directory(tmp_path / "checkpoint"):
        raise ConnectionResetError(104, "Connection reset by peer")


def test_a_writer_that_is_killed_leaves_the_old_folder_whole(tmp_path):
    save(tmp_path / "checkpoint", "old")
    killed_after(
        f"""
        import time
        from pathlib import Path
        from swarm.files import whole_directory
        with whole_directory(Path({str(tmp_path)!r}) / "checkpoint") as folder:
            (folder / "model.bin").write_text("half")
            print("in the middle", flush=True)
            time.sleep(600)
        """,
        1,
    )
    assert saved(tmp_path / "checkpoint") == "old"
    assert len(names(tmp_path)) == 2
    remove_partials(tmp_path)
    assert names(tmp_path) == ["checkpoint"]


def test_a_writer_that_is_killed_between_the_two_renames_loses_neither_folder_name_nor_content(tmp_path):
    save(tmp_path / "checkpoint", "old")
    killed_after(
        f"""
        import time
        from pathlib import Path
        from swarm.files import whole_directory
        rename, done = Path.replace, []
        def rename_once(self, target):
            if done:
                print("in the middle", flush=True)
                time.sleep(600)
            done.append(target)
            rename(self, target)
        Path.replace = rename_once
        with whole_directory(Path({str(tmp_path)!r}) / "checkpoint") as folder:
            (folder / "model.bin").write_text("new")
        """,
        1,
    )
    assert not (tmp_path / "checkpoint").exists()
    remove_partials(tmp_path)
    assert saved(tmp_path / "checkpoint") == "old"
    assert names(tmp_path) == ["checkpoint"]


def test_a_writer_that_is_killed_leaves_the_old_file_whole(tmp_path):
    write_file(tmp_path / "state.json", "old")
    killed_after(
        f"""
        import os, time
        from pathlib import Path
        from swarm.files import write_file
        def never_done(descriptor):
            print("in the middle", flush=True)
            time.sleep(600)
        os.fsync = never_done
        write_file(Path({str(tmp_path)!r}) / "state.json", "new")
        """,
        1,
    )
    assert (tmp_path / "state.json").read_text() == "old"
    remove_partials(tmp_path)
    assert names(tmp_path) == ["state.json"]


def test_a_writer_with_the_process_number_of_a_crashed_one_is_not_stopped_by_what_that_left(tmp_path):
    leftover = tmp_path / f".checkpoint.partial-new-{os.getpid()}-{threading.get_native_id()}"
    leftover.mkdir()
    (leftover / "model.bin").write_text("half")
    save(tmp_path / "checkpoint", "new")
    assert names(tmp_path) == ["checkpoint"]
    assert names(tmp_path / "checkpoint") == ["deep"]


@pytest.mark.parametrize("write", [write_file, save])
def test_a_place_that_cannot_be_written_ends_in_one_line(tmp_path, write):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError) as caught:
        write(tmp_path / "file" / "checkpoint", "new")
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}/file/checkpoint: could not be saved (")
    assert message.endswith("); choose another folder")
    assert "\n" not in message


@pytest.mark.skipif(os.getuid() != 0, reason="not root")
def test_a_folder_that_may_not_be_looked_into_is_told_in_one_line(tmp_path: Path):
    tmp_path.chmod(0o700)
    told = tmp_path.parent / "told"
    told.touch()
    told.chmod(0o666)
    descriptor = os.open(told, os.O_WRONLY)
    if (child := os.fork()) == 0:  # what is imported already needs no rights
        try:
            os.setuid(65534)
            for use in (lambda path: write_file(path, "x"), load_identity):
                with pytest.raises(StorageError, match="could not be saved \\(Permission denied\\); choose another"):
                    use(tmp_path / "state" / "key")
            os.write(descriptor, b"well")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert told.read_text() == "well"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 3 * 1024) as place:
        yield place


def plainly(folder: Path) -> None:
    (folder / "model.bin").write_bytes(bytes(4 * MEBIBYTE))


def with_torch(folder: Path) -> None:
    import torch

    torch.save({str(index): torch.zeros(MEBIBYTE // 16) for index in range(20)}, folder / "optimizer.pt")


def with_safetensors(folder: Path) -> None:
    import torch
    from safetensors.torch import save_file

    save_file({"weight": torch.zeros(MEBIBYTE)}, folder / "model.safetensors")


@pytest.mark.parametrize("fill", [plainly, with_torch, with_safetensors])
def test_a_full_disk_leaves_the_old_folder_whole(disk: Path, fill: Callable[[Path], None]):
    save(disk / "checkpoint", "old")
    with pytest.raises(StorageError) as caught, whole_directory(disk / "checkpoint") as folder:
        fill(folder)
    message = f"{disk}/checkpoint: could not be saved, the disk is full; free some space"
    assert str(caught.value) == message
    assert saved(disk / "checkpoint") == "old"
    assert names(disk) == ["checkpoint"]


def test_a_full_disk_leaves_the_old_file_whole(disk):
    write_file(disk / "state.json", "old")
    with pytest.raises(StorageError, match="the disk is full"):
        write_file(disk / "state.json", bytes(4 * MEBIBYTE))
    assert (disk / "state.json").read_text() == "old"
    assert names(disk) == ["state.json"]


def rights(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_what_was_open_to_others_is_closed_and_what_comes_later_is_not_opened(tmp_path: Path):
    folder = tmp_path / "state"
    (folder / "logs").mkdir(parents=True)
    (folder / "notices.json").write_text("{}")
    (folder / "logs" / "coordinator.jsonl").write_text("{}")
    (folder / "script").write_text("#!/bin/sh")
    (folder / "script").chmod(0o755)
    assert (rights(folder), rights(folder / "notices.json")) == (0o755, 0o644)
    assert keep_private(folder) is None
    (folder / "new").mkdir()
    (folder / "new" / "file").write_text("")
    assert {str(path.relative_to(tmp_path)): rights(path) for path in tmp_path.rglob("*")} == {
        "state": 0o700,
        "state/logs": 0o700,
        "state/logs/coordinator.jsonl": 0o600,
        "state/new": 0o700,
        "state/new/file": 0o600,
        "state/notices.json": 0o600,
        "state/script": 0o700,
    }


def test_the_folder_may_be_a_link_but_links_in_it_are_not_followed(tmp_path: Path):
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "folder"
    for one in (elsewhere, folder):
        one.mkdir()
        (one / "file").write_text("")
    (folder / "to-a-folder").symlink_to(elsewhere)
    (folder / "to-a-file").symlink_to(elsewhere / "file")
    (folder / "to-nothing").symlink_to(tmp_path / "nothing")
    (tmp_path / "state").symlink_to(folder)
    assert keep_private(tmp_path / "state") is None
    assert (rights(folder), rights(folder / "file")) == (0o700, 0o600)
    assert (rights(elsewhere), rights(elsewhere / "file")) == (0o755, 0o644)


def test_a_folder_that_is_not_there_yet_is_made_by_its_writer(tmp_path: Path):
    assert keep_private(tmp_path / "state") is None
    assert not (tmp_path / "state").exists()


def test_what_cannot_be_closed_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tmp_path.chmod(0o755)
    for name in ("a", "b"):
        (tmp_path / name).write_text("")
    monkeypatch.setattr(Path, "chmod", Mock(side_effect=PermissionError(1, "Operation not permitted")))
    problem = keep_private(tmp_path)
    assert problem is not None and "\n" not in problem
    assert f"{tmp_path}: others may read it (Operation not permitted), and 2 more" in problem and "--state" in problem
