"""How commands start, and what they say."""

import gc
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from app import cli
from app.organizing import info
from app.startup import INTERRUPTED, loading_libraries
from tests.support.forked import run_sahaj, start_function


def test_what_is_loaded_is_not_searched_for_garbage_and_all_that_follows_is() -> None:
    gc.unfreeze()
    try:
        with pytest.raises(ImportError), loading_libraries():
            assert not gc.isenabled()
            raise ImportError
        assert gc.isenabled() and gc.get_freeze_count()
    finally:
        gc.unfreeze()


def test_a_command_goes_on_when_nobody_can_read_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full").open("w")  # noqa: SIM115  (what is buffered fails again at its end)
    monkeypatch.setattr(sys, "stdout", full)
    cli._say("global step 1 of 2")
    monkeypatch.undo()
    with pytest.raises(OSError, match="space"):
        full.close()


def test_ctrl_c_in_a_command_that_is_no_peer_is_told(tmp_path: Path) -> None:
    process = start_function(be_interrupted, out=tmp_path / "out", err=tmp_path / "err")
    assert process.wait() == INTERRUPTED
    assert (tmp_path / "err").read_text() == "sahaj: stopped\n"


def be_interrupted() -> None:
    info.describe = Mock(side_effect=KeyboardInterrupt)
    run_sahaj(["info", "checkpoint-1"])
