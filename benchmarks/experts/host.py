"""Rows a second through one host of experts on one core, and what share of that core the experts' own computing is.

    python -m benchmarks.experts.host [--json FILE] [--seconds 20]

The host has 16 experts of width 256 with a hidden layer of 1024; its process and its libp2p daemon have a core of their
own. The callers have the other one: four threads, each with a batch of 1024 rows on its way, 64 for each expert. They
call over libp2p, in 8 bits, as trainers do. *Forward* is that direction alone; *both* is a backward after each forward,
with a step of the expert's own, and counts a row once in each direction.

Times are of the processor, so that other work on the machine does not count. What the experts' own computing takes is
measured in the same process, by turns of two seconds: the same numbers of rows, for the same experts, alone.
`overhead` is what the core does beside that, relative to it: coding of rows, messages, the queue, libp2p. `wall_rows`
is by the clock on the wall, and only right on a machine that does nothing else.
"""

import asyncio
import json
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import psutil
import torch
import typer
from hivemind.p2p import P2P, PeerID
from rich.console import Console
from rich.table import Table

from averaging.transport.loop import LoopThread
from benchmarks.support import command
from experts.grid import Uid, all_uids
from experts.host.call_queue import Call, Direction
from experts.host.computing import Computing, Outcome
from experts.host.settings import ExpertSettings, HostLimits
from experts.host.trained_expert import Gradients, TrainedExpert
from experts.host.worker import Worker
from experts.remote.remote_experts import RemoteExperts
from experts.remote.service import ExpertService
from swarm.access.gate import Gate
from swarm.access.passes import load_authority
from swarm.errors import SahajError
from swarm.files import write_file
from swarm.identity import Identity, load_identity
from tests.support.passes import own_gate

SETTINGS = ExpertSettings(grid=(4, 4), width=256, hidden=1024)
UIDS = tuple(all_uids(SETTINGS.grid))
CALLERS, ROWS = 4, 64  # threads, and rows for each expert in a call
WARM_UP = 20_000  # rows that are not measured
TURN = 2.0  # seconds
PATIENCE = 300.0  # seconds
RUN = "benchmark"


@dataclass(frozen=True)
class Speed:
    """See the module; rows are a second of the core, or of the clock."""

    rows: float
    wall_rows: float
    overhead: float
    expert_share: float  # of the core's time
    daemon_share: float  # the same, of libp2p's daemon
    expert_rows: float  # rows a second of the experts' computing alone


def main(
    seconds: Annotated[float, typer.Option(help="Seconds that are measured.")] = 20.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure both directions, one after the other."""
    cores = command.two_cores()
    speeds = {name: _measure(name == "both", seconds, cores) for name in ("forward", "both")}
    table = Table(
        "", "rows/s of the core", "rows/s by the clock", "experts alone", "experts' share", "libp2p's", "overhead"
    )
    for name, one in speeds.items():
        counts = [f"{value:,.0f}" for value in (one.rows, one.wall_rows, one.expert_rows)]
        table.add_row(name, *counts, f"{one.expert_share:.0%}", f"{one.daemon_share:.0%}", f"{one.overhead:.1%}")
    Console().print(table)
    if json_file:
        write_file(json_file, json.dumps({name: asdict(one) for name, one in speeds.items()}, indent=2))


def _measure(both: bool, seconds: float, cores: tuple[int, int]) -> Speed:
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        host = spawn.Process(target=_host, args=(folder, cores[0], seconds))
        callers = spawn.Process(target=_call, args=(folder, cores[1], both))
        host.start()
        callers.start()
        host.join(PATIENCE + seconds)
        write_file(folder / "stop", "")
        callers.join(PATIENCE)
        for process in (host, callers):
            process.kill()
        if not (folder / "speed.json").exists():
            raise SahajError("the host of experts did not measure anything")
        return Speed(**json.loads((folder / "speed.json").read_text()))


def _host(folder: Path, core: int, seconds: float) -> None:
    """Serve, and measure."""
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    loop = LoopThread()
    loop.call(_serve(folder, seconds))
    loop.stop()


async def _serve(folder: Path, seconds: float) -> None:
    identity, gate = _pass(folder, "host")
    p2p = await P2P.create(host_maddrs=["/ip4/127.0.0.1/tcp/0"], identity_path=str(identity.path))
    computing = Recorded(SETTINGS)
    computing.experts = {uid: TrainedExpert(uid, SETTINGS) for uid in UIDS}
    worker = Worker(computing, HostLimits())
    service = ExpertService(p2p, gate, RUN, SETTINGS, worker)
    running = asyncio.create_task(worker.run())
    await service.start()
    write_file(folder / "addresses.json", json.dumps([str(one) for one in await p2p.get_visible_maddrs()]))
    while computing.rows < WARM_UP:
        await asyncio.sleep(0.1)
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    totals, expert = [0.0] * 4, 0.0

    def look() -> tuple[list[float], int]:
        """Between two batches: rows, seconds by the clock, of this process, and of libp2p's daemon; and the batches."""
        busy = [_busy(some) for some in (processes[:1], processes[1:])]
        return [computing.rows, time.monotonic(), *busy], len(computing.groups)

    while totals[1] < seconds:
        before, first = await worker.between(look)
        await asyncio.sleep(TURN)
        after, last = await worker.between(look)
        totals = [total + end - begin for total, begin, end in zip(totals, before, after, strict=True)]
        expert += await worker.between(_alone, computing.experts, computing.groups[first:last])
    await service.stop()
    running.cancel()
    await p2p.shutdown()
    rows, wall, own, daemon = totals
    core = own + daemon
    speed = Speed(rows / core, rows / wall, core / expert - 1, expert / core, daemon / core, rows / expert)
    write_file(folder / "speed.json", json.dumps(asdict(speed)))


class Recorded(Computing):
    """Remembers how many rows each expert had in each batch."""

    def __init__(self, settings: ExpertSettings):
        super().__init__(settings)
        self.groups: list[tuple[Uid, Direction, list[int]]] = []

    def compute(self, calls: Sequence[Call]) -> list[Outcome]:
        """As usual."""
        groups: dict[tuple[Uid, Direction], list[int]] = {}
        for call in calls:
            groups.setdefault((call.uid, call.direction), []).append(call.rows)
        self.groups += [(uid, direction, rows) for (uid, direction), rows in groups.items()]
        return super().compute(calls)


def _alone(experts: dict[Uid, TrainedExpert], groups: Sequence[tuple[Uid, Direction, list[int]]]) -> float:
    """In the computing thread: seconds of the core for the same work alone. All rows are of one caller, as there."""
    most = max(sum(rows) for _, _, rows in groups)
    numbers = torch.randn(len(UIDS), most, SETTINGS.width)  # as in the run, no batch finds its rows in a cache
    begin = time.thread_time()
    for at, (uid, direction, rows) in enumerate(groups):
        some = numbers[at % len(UIDS), : sum(rows)]
        if direction is Direction.FORWARD:
            experts[uid].forward(some)
        else:
            experts[uid].backward([Gradients(some, some, [True] * len(some))])
    return time.thread_time() - begin


def _busy(processes: Sequence[psutil.Process]) -> float:
    """Seconds of the core."""
    times = [process.cpu_times() for process in processes]
    return sum(one.user + one.system for one in times)


def _call(folder: Path, core: int, both: bool) -> None:
    """Call until the file `stop` is there."""
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    _wait_for(folder / "addresses.json")
    known = json.loads((folder / "addresses.json").read_text())
    loop = LoopThread()
    identity, gate = _pass(folder, "caller")
    p2p = loop.call(
        P2P.create(initial_peers=known, host_maddrs=["/ip4/127.0.0.1/tcp/0"], identity_path=str(identity.path))
    )
    experts = RemoteExperts(loop, p2p, gate, RUN, SETTINGS, timeout=PATIENCE)
    host = PeerID.from_base58(known[0].rsplit("/", 1)[1])
    experts.use(dict.fromkeys(UIDS, host))
    threads = [threading.Thread(target=_call_on, args=(experts, both, folder)) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loop.call(p2p.shutdown())
    loop.stop()


def _call_on(experts: RemoteExperts, both: bool, folder: Path) -> None:
    inputs = {uid: torch.randn(ROWS, SETTINGS.width) for uid in UIDS}
    while not (folder / "stop").exists():
        outputs = experts.forward(inputs)
        if both and outputs:
            experts.backward({uid: inputs[uid] for uid in outputs}, outputs)
        if not outputs:
            time.sleep(0.1)  # the host has ended


def _pass(folder: Path, user: str) -> tuple[Identity, Gate]:
    """Who this process is."""
    own = folder / user
    own.mkdir(exist_ok=True)
    identity = load_identity(own / "identity.key")
    return identity, own_gate(own, RUN, load_authority(folder / "authority.key"), identity, user)


def _wait_for(file: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not file.exists():
        if time.monotonic() > end:
            raise SahajError(f"{file.name}: the host did not start")
        time.sleep(0.05)


if __name__ == "__main__":
    command.run(main)
