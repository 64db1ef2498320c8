"""The experts of a run as a peer that has the model reaches them: a table of who has which, and calls."""

import asyncio
import contextlib
from collections.abc import Mapping
from concurrent.futures import TimeoutError as NoAnswer

from hivemind.dht import DHT

from averaging.transport.loop import LoopThread, join_daemon
from experts.directory.records import Directory
from experts.grid import size
from experts.host.settings import ExpertSettings, settings_of
from experts.layer.mixture import BatchCounts
from experts.remote.following import follow
from experts.remote.remote_experts import CallCounts, RemoteExperts
from swarm.access.gate import Gate
from swarm.language import _
from swarm.run_file import RunFile

CLOSING = 2.0  # seconds


def open_experts(
    run: RunFile, fingerprint: str, dht: DHT, gate: Gate, *, hurries: bool = True
) -> "ReachedExperts | None":
    """Begin to look for hosts, if the run has experts; hivemind's processes must have been forked before.

    Args:
        hurries: see `RemoteExperts`.
    """
    settings = settings_of(run)
    if settings is None or run.experts is None:
        return None
    directory = Directory(dht, run.name, gate, settings.grid, settings.fingerprint)
    return ReachedExperts(directory, fingerprint, settings, run.experts.timeout, dht, gate, hurries=hurries)


def summary(calls: CallCounts, batches: BatchCounts) -> str:
    """What came of a trainer's calls, to be said when it leaves."""
    return _("Experts: {calls} calls, {lost} without an answer; {whole} of {batches} batches had all answers.").format(
        calls=f"{calls.asked:,}",
        lost=f"{calls.asked - calls.answered:,}",
        whole=f"{batches.whole:,}",
        batches=f"{batches.batches:,}",
    )


class ReachedExperts:
    """Calls have an event loop of their own, so that they and the averaging do not hold each other up.

    Args:
        fingerprint: of the run.
        timeout: seconds that a forward or a backward waits for hosts.
        hurries: see `RemoteExperts`.
    """

    def __init__(
        self,
        directory: Directory,
        fingerprint: str,
        settings: ExpertSettings,
        timeout: float,
        dht: DHT,
        gate: Gate,
        *,
        hurries: bool = True,
    ):
        self._size = size(settings.grid)
        self._loop = LoopThread("experts")
        self._p2p = self._loop.call(join_daemon(dht))
        self.caller = RemoteExperts(self._loop, self._p2p, gate, fingerprint, settings, timeout, hurries=hurries)
        self._loop.begin(follow(directory, self.caller))

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
