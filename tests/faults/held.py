"""`sahaj` in a process that stands still when it comes to a chosen place, once it is told to.

The functions at these places look for a file before they do their work. A test puts the file there, waits until the
process is held, and then does to the process whatever it wants. Nothing of the program is replaced but the bandwidth
that it measures: all lines count as equal, so that each peer reduces a part of every round.
"""

import functools
import inspect
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from averaging.bandwidth import OwnLine
from averaging.protocol.commit.voting import Voting
from averaging.protocol.messages import Bandwidth
from averaging.protocol.rounds.convening import Convening
from averaging.protocol.rounds.reducing import Reduction
from averaging.shell.replay import Replay
from averaging.shell.shell import Shell
from coordinator.checkpoints import store
from coordinator.release.hub import HubRepository
from swarm.files import write_file
from tests.support.forked import run_sahaj
from tests.support.hosts import move_to

POLL = 0.005  # seconds
EQUAL_LINE = Bandwidth(upload=100.0, download=100.0)  # Mbit/s
LONGEST = 60.0  # seconds that a process is held, or the test has failed


def run_held(arguments: list[str], folder: str, namespace: str | None) -> None:
    """Run `sahaj` with these arguments.

    Args:
        folder: where to look for what to do, and to say what is done.
        namespace: of the host to be on (`hosts.py`), if not this one.
    """
    if namespace is not None:
        move_to(namespace)
    setattr(OwnLine, "bandwidth", lambda _: EQUAL_LINE)  # noqa: B010
    for phase, (owner, name) in _places().items():
        setattr(owner, name, _holding(getattr(owner, name), Path(folder), phase))
    run_sahaj(arguments)


def hold(folder: Path, phase: str, command: Sequence[str] = ()) -> None:
    """Have the process stand still when it comes to the phase the next time, and run the command at once."""
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / f"hold-{phase}", shlex.join(command))


def is_held(folder: Path, phase: str) -> bool:
    """Whether it stands still there now."""
    return (folder / f"held-{phase}").exists()


def release(folder: Path, phase: str) -> None:
    """Let it go on."""
    (folder / f"held-{phase}").unlink(missing_ok=True)


def _places() -> dict[str, tuple[Any, str]]:
    return {
        "accumulating": (Shell, "contribute"),  # a trainer's batch is computed
        "meeting": (Voting, "call"),  # a peer takes part in the round and promises its convener
        "reducing": (Reduction, "piece"),  # a member's piece has arrived at a reducer
        "proposing": (Convening, "saved"),  # the coordinator's disk has a proposal that no other peer has seen
        "voting": (Voting, "signed_vote"),  # a voter has accepted, and the convener does not know it
        "stepping": (Replay, "apply"),  # a header is committed, and its step is about to be taken
        "saving": (store, "_read_back"),  # a checkpoint's files are written, and do not have their names yet
        "uploading": (HubRepository, "commit"),  # the large files of a release are at the Hub, and nobody sees them
    }


def _holding(function: Callable[..., Any], folder: Path, phase: str) -> Callable[..., Any]:
    ask, being_told, said = (folder / f"{name}-{phase}" for name in ("hold", "holding", "held"))

    def stand_still() -> None:
        try:
            ask.rename(being_told)  # of several processes and threads one is held
        except FileNotFoundError:
            return
        if command := shlex.split(being_told.read_text()):
            subprocess.run(command, check=True)
        being_told.rename(said)
        deadline = time.monotonic() + LONGEST
        while said.exists() and time.monotonic() < deadline:
            time.sleep(POLL)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def whole(*args: Any, **kwargs: Any) -> Any:
            stand_still()
            return await function(*args, **kwargs)

    else:

        @functools.wraps(function)
        def whole(*args: Any, **kwargs: Any) -> Any:
            stand_still()
            return function(*args, **kwargs)

    return whole
