"""The folder of `sahaj train` without `--state` is removed at the end, except after an unforeseen error."""

import tempfile
from pathlib import Path

import pytest

from app.commands.train_by_address import _temporary_folder
from swarm.errors import SwarmError


@pytest.mark.parametrize(
    ("ends", "stays"),
    [(None, False), (SwarmError("no peer"), False), (KeyboardInterrupt(), False), (ZeroDivisionError(), True)],
)
def test_it_stays_only_if_the_program_fails(
    ends: BaseException | None, stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    try:
        with _temporary_folder() as folder:
            (folder / "log").write_text("")
            if ends is not None:
                raise ends
    except BaseException as error:
        assert error is ends
    assert folder.parent == tmp_path and folder.exists() == stays
