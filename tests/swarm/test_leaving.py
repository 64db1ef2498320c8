"""How a process ends that does not end by itself."""

import time
from pathlib import Path

from swarm.errors import SwarmError
from swarm.leaving import leaving_on_signal
from tests.support.forked import start_function

WHILE = 60.0  # seconds


def test_a_process_that_failed_and_hangs_ends_with_a_status(tmp_path: Path):
    process = start_function(hang, out=tmp_path / "said")
    assert process.wait(WHILE / 2) == SwarmError.exit_status
    assert (tmp_path / "said").read_text() == "goodbye\n"


def hang() -> None:
    with leaving_on_signal(lambda: print("goodbye"), patience=0.1) as asked:  # noqa: T201
        asked.fail()
        time.sleep(WHILE)
