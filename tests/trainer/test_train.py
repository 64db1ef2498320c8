"""When a volunteer's part in a run is interrupted."""

import time
from types import SimpleNamespace
from typing import Any

from swarm.leaving import Asked
from trainer.train import _gives_up


def test_a_long_batch_is_given_up_for_a_pause_and_to_leave_but_not_while_a_step_may_be_finished() -> None:
    pauses: Any = SimpleNamespace(pause=None)
    asked = Asked()
    assert not _gives_up(pauses, asked)
    asked.until = time.monotonic() + 60.0
    asked.set()
    assert not _gives_up(pauses, asked)
    asked.until = 0.0
    assert _gives_up(pauses, asked)
    assert _gives_up(SimpleNamespace(pause="battery"), Asked())  # type: ignore[arg-type]
