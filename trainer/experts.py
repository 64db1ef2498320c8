"""The experts of a run as a peer that has the model reaches them: a table of who has which, and calls."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as NoAnswer

from hivemind.dht import DHT
from hivemind.p2p import P2P

from averaging.transport.loop import LoopThread, join_daemon
from experts.directory.records import Directory
from experts.grid import size
from experts.host.settings import settings_of
from experts.layer.mixture import BatchCounts
from experts.remote.following import follow
from experts.remote.remote_experts import CallCounts, RemoteExperts
from swarm.access.gate import Gate
from swarm.language import _
from swarm.run_file import RunFile

CLOSING = 2.0  # seconds


def open_experts(
    run: RunFile,
    fingerprint: str,
    dht: DHT,
    gate: Gate,
    *,
    trainers: Callable[[], int] = lambda: 1,
    hurries: bool = True,
) -> "ReachedExperts | None":
    """Begin to look for hosts, if the run has experts; hivemind's processes must have been forked before.

    Args:
        trainers: see `follow`.
        hurries: see `RemoteExperts`.
    """
    settings = settings_of(run)
    if settings is None or run.experts is None:
        return None
    directory = Directory(dht, run.name, gate, settings.grid, settings.fingerprint)
    loop = LoopThread("experts")  # of their own, so that calls and the averaging do not hold each other up
    p2p = loop.call(join_daemon(dht))
    caller = RemoteExperts(loop, p2p, gate, fingerprint, settings, run.experts.timeout, hurries=hurries)
    loop.begin(follow(directory, caller, trainers))
    return ReachedExperts(loop, p2p, caller, size(settings.grid))


def summary(calls: CallCounts, batches: BatchCounts) -> str:
    """What came of a trainer's calls, to be said when it leaves."""
    return _("Experts: {calls} calls, {lost} without an answer; {whole} of {batches} batches had all answers.").format(
        calls=f"{calls.asked:,}",
        lost=f"{calls.asked - calls.answered:,}",
        whole=f"{batches.whole:,}",
        batches=f"{batches.batches:,}",
    )


class ReachedExperts:
    """Calls to experts, which go on until they are closed.

    Args:
        size: how many experts the grid has room for.
    """

    def __init__(self, loop: LoopThread, p2p: P2P, caller: RemoteExperts, size: int):
        self._loop, self._p2p, self.caller, self._size = loop, p2p, caller, size

    @property
    def answering(self) -> tuple[int, int]:
        """How many experts are believed to answer now, and how many the grid has room for."""
        return len(self.caller.alive()), self._size

    def served(self) -> Mapping[str, int]:
        """Tokens that each host's experts, by peer id, have served this process, forward and back."""
        return dict(self.caller.served)

    def close(self) -> None:
        """End all streams; before the DHT is shut down."""
        self.caller.close()
        with contextlib.suppress(NoAnswer):
            self._loop.call(self._p2p.shutdown(), CLOSING)
        with contextlib.suppress(NoAnswer):
            self._loop.call(_end_looks(), CLOSING)
        self._loop.stop(CLOSING)


async def _end_looks() -> None:
    # a look into the directory that is under way would wait for a DHT that is gone, and the process for it
    await asyncio.get_running_loop().shutdown_default_executor()
