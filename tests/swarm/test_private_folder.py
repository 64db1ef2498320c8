import stat
from pathlib import Path

import pytest

from swarm.private_folder import keep_private


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

    def not_ours(path: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", not_ours)
    problem = keep_private(tmp_path)
    assert problem is not None and "\n" not in problem
    assert f"{tmp_path}: others may read it (Operation not permitted), and 2 more" in problem and "--state" in problem
