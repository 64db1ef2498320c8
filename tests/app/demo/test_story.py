"""What the demo tells of its global steps, how long it waits for them, and what is left when it is ended."""

import contextlib
import errno
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
from rich.console import Console

import app.demo.demo
import app.demo.story
from app.demo.demo import DemoFolderError, DemoOptions, _claimed, run_demo
from app.demo.story import STALLED, Story, has_line
from app.demo.summary import summarize
from swarm.errors import StorageError, SwarmError
from tests.support.forked import start_function
from tests.support.waiting import wait_until


def test_a_long_demo_tells_some_of_its_steps_and_a_short_one_all() -> None:
    assert [step for step in range(1, 15) if has_line(step, 14)] == list(range(1, 15))
    told = [step for step in range(1, 81) if has_line(step, 80)]
    assert told == list(range(4, 81, 4))
    assert has_line(83, 83), "the last one is always told"


def test_a_demo_waits_for_the_checkpoint_longer_than_for_a_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    clock = SimpleNamespace(monotonic=lambda: now, sleep=sleep)
    monkeypatch.setattr(app.demo.story, "time", clock)
    steps: list[Any] = [SimpleNamespace(step=1, peers=3, samples=8, loss=None)]
    run = SimpleNamespace(optimizer=SimpleNamespace(total_steps=2))
    ledger = SimpleNamespace(steps=lambda since: [one for one in steps if one.step >= since])
    coordinator = SimpleNamespace(process=SimpleNamespace(poll=lambda: None), log="coordinator.log")
    story = Story(run, tmp_path, coordinator, ledger, "http://127.0.0.1", Console())  # type: ignore[arg-type]
    story._wait_for_step(2)
    now = STALLED + 1.0
    story._poll()
    now = 10_000.0
    with pytest.raises(SwarmError, match=r"no checkpoint of step 2 600 s after it was done; see coordinator\.log"):
        story._wait_for_checkpoint(2)
    run.optimizer.total_steps = 3
    with pytest.raises(SwarmError, match="no global step for 120 s after step 2"):
        story._poll()


def test_a_trainer_that_joined_again_has_the_samples_of_both_sessions(tmp_path: Path) -> None:
    sessions = [SimpleNamespace(user="~asha", samples=n, averaging_failures=0, data_wait_fraction=0.0) for n in (3, 4)]
    ledger = SimpleNamespace(steps=list, evaluations=list, sessions=lambda: sessions)
    asha = SimpleNamespace(name="asha", client_mode=False, fate="finished", said=lambda pattern: [])
    summary = summarize([asha], ledger, tmp_path, seconds=1.0, training=1.0)  # type: ignore[arg-type, list-item]
    assert (summary.samples, summary.peers[0].samples) == (7, 7)


def test_a_folder_whose_file_system_has_no_locks_is_an_error_of_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=OSError(errno.ENOLCK, "No locks available")))
    with pytest.raises(StorageError, match="No locks available"), _claimed(tmp_path):
        pass


def test_two_demos_do_not_use_one_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with (
        _claimed(out),
        pytest.raises(DemoFolderError, match="another demo runs there; stop it, or choose another"),
        _claimed(out),
    ):
        pass
    assert not list(out.iterdir()), "a demo that made nothing leaves nothing"
    with _claimed(out):
        (out / "photos").mkdir()
    (out / ".sahaj-demo").unlink()
    with pytest.raises(DemoFolderError, match="something other than an earlier demo"), _claimed(out):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(DemoFolderError, match=r"--out .*file: cannot be read"), _claimed(tmp_path / "file"):
        pass


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_no_process_is_left_when_the_terminal_is_closed(tmp_path: Path, number: signal.Signals) -> None:
    told = tmp_path / "pid"
    demo = start_function(be_a_demo, tmp_path, out=tmp_path / "said")
    try:
        wait_until(lambda: told.exists() and told.read_text().endswith("\n"), "a coordinator")
        demo.send_signal(number)
        assert demo.wait() == 0
        wait_until(lambda: not is_alive(int(told.read_text())), "end of the coordinator")
    finally:
        demo.kill_all()
        if told.exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(told.read_text()), signal.SIGKILL)


def is_alive(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def be_a_demo(place: Path) -> None:
    """One whose coordinator says nothing."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # pytest may have inherited from nohup that it is ignored
    program = place / "program"
    program.write_text(f"#!/bin/sh\necho $$ > {place / 'pid'}\nexec sleep 600\n")
    program.chmod(0o755)
    sys.executable = str(program)
    app.demo.demo.prepare_run = lambda *_: (None, {})  # type: ignore[assignment]
    try:
        run_demo(DemoOptions(corpus=None, run=None, trainers=3, steps=None, out=place / "out"))
    except KeyboardInterrupt:
        sys.exit(0)
    sys.exit(1)
