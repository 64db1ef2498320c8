"""Files that are written only where there is none."""

import os
import stat
from pathlib import Path

import pytest

from swarm.files import write_file


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_another_process_has_just_written_may_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
):
    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr(os, "link", no_links)
    for content in ("first", "second"):
        write_file(tmp_path / "key", content, mode=0o600, replaces=False)
    assert (tmp_path / "key").read_text() == "first" and [path.name for path in tmp_path.iterdir()] == ["key"]
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
