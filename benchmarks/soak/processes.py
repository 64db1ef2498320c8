"""What the processes of a swarm hold while it runs: memory, open files, and who stays behind."""

import contextlib
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import psutil

from app.demo.peers import Peer

WARM = 60.0  # seconds from the start of a process until its memory is compared; buffers and caches fill till then
LONG_ENOUGH = 180.0  # seconds that it has to live for that
WINDOW = 0.2  # of its life after that: the medians of the first and of the last part are compared


@dataclass(frozen=True)
class Sample:
    """One look at a process."""

    time: float  # monotonic seconds
    memory: int  # bytes that are resident
    files: int  # open ones
    descriptors: int  # those, and connections and pipes


@dataclass
class History:
    """All looks at one process."""

    name: str
    samples: list[Sample] = field(default_factory=list)


@dataclass(frozen=True)
class Growth:
    """Of a process that lived long enough: how its memory has grown, as a fraction, and its open files."""

    name: str
    minutes: float
    megabytes: float  # at the end
    memory: float
    files: int
    descriptors: int


class Watch:
    """Looks at all processes of living peers now and then, and for those that should be gone."""

    def __init__(self) -> None:
        self._histories: dict[tuple[int, float], History] = {}  # by process id and start
        self.leaked: set[str] = set()

    def look(self, peers: Iterable[Peer], ended: Iterable[Peer]) -> None:
        """Measure the processes of `peers`; those of `ended` peers had time to end."""
        living = {peer.process.pid: peer.name for peer in peers}
        gone = {peer.process.pid: peer.name for peer in ended}
        counts: defaultdict[str, int] = defaultdict(int)
        for process in sorted(psutil.process_iter(), key=lambda one: one.pid):
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                session = os.getsid(process.pid)
                if process.status() == psutil.STATUS_ZOMBIE:
                    if session in living and process.pid != session:
                        self.leaked.add(f"zombie {process.pid} of {living[session]}")
                elif session in gone:
                    self.leaked.add(f"{process.name()} {process.pid} of {gone[session]}")
                elif session in living:
                    counts[living[session]] += 1
                    name = f"{living[session]}: {process.name()} {counts[living[session]]}"
                    history = self._histories.setdefault((process.pid, process.create_time()), History(name))
                    # with what is shared: pages that a process stops to share with its parent are no growth
                    held = process.memory_info().rss
                    history.samples.append(Sample(time.monotonic(), held, len(process.open_files()), process.num_fds()))

    def growths(self) -> list[Growth]:
        """Of all processes that lived long enough, the one that has grown most first."""
        found = [growth_of(history) for history in self._histories.values()]
        return sorted((one for one in found if one), key=lambda one: one.memory, reverse=True)


def growth_of(history: History) -> Growth | None:
    """How a process has grown since it was warm; None if it did not live long enough to tell."""
    began, ended = history.samples[0].time, history.samples[-1].time
    if ended - began < LONG_ENOUGH:
        return None
    span = WINDOW * (ended - began - WARM)
    first = [one for one in history.samples if began + WARM <= one.time <= began + WARM + span]
    last = [one for one in history.samples if one.time >= ended - span]
    before, after = (statistics.median(one.memory for one in some) for some in (first, last))
    # they come and go with calls and peers; what is never let go of raises the least there are
    opened, open_now = (min(one.files for one in some) for some in (first, last))
    held, held_now = (min(one.descriptors for one in some) for some in (first, last))
    return Growth(
        history.name,
        minutes=round((ended - began) / 60, 1),
        megabytes=round(after / 2**20, 1),
        memory=round(after / before - 1, 4),
        files=open_now - opened,
        descriptors=held_now - held,
    )
