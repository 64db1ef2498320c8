"""Real averagers, each a process of its own, whose lines are not what the plan of their round takes them for."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from hivemind.averaging.group_info import GroupInfo

from swarm.dht import Network, addresses, join_dht
from swarm.durable import write_file
from swarm.identity import load_identity
from tests.faults.hosts import NoHosts, made_hosts, move_to
from tests.forked import runs_well, start_function
from trainer.averaging.downloads import Wanted
from trainer.averaging.groups import StepwiseAverager
from trainer.averaging.lines.caps import Cap, Caps
from trainer.averaging.lines.measured import OwnLine
from trainer.averaging.lines.speeds import Direction, Line
from trainer.averaging.moshpit.grid import Cell
from trainer.averaging.runner import longest_silence
from trainer.averaging.sharing import Sharing
from trainer.leaving import end_process

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
MEGA = 10**6
MATCHMAKING = 20.0  # seconds; a group that is complete begins at once
PATIENCE = 120.0  # seconds, of the run file: for whoever is silent, and for a whole round


class Watched(StepwiseAverager):
    """Writes down the parts that it averages, and may stand still some time after a round has begun."""

    def __init__(self, *args: Any, notes: Path, stops_after: float | None, **kwargs: Any):
        self._notes, self._stops_after = notes, stops_after
        super().__init__(*args, **kwargs)

    def _shared(self, kept: GroupInfo) -> Sharing:
        sharing = super()._shared(kept)
        with self._notes.open("a") as file:
            file.write(f"{sharing.parts[kept.peer_ids.index(self.peer_id)]}\n")
        return sharing

    async def _reduce(self, *args: Any, **kwargs: Any) -> None:
        if self._stops_after is not None:
            asyncio.get_running_loop().call_later(self._stops_after, os.kill, os.getpid(), signal.SIGSTOP)
        await super()._reduce(*args, **kwargs)


def start_averagers(
    folder: Path,
    stack: contextlib.ExitStack,
    size: int,
    said: float,
    sent: dict[float, float],
    stops_after: Mapping[float, float] = MappingProxyType({}),
) -> list[Watched]:
    """One for each value that is to be averaged.

    Args:
        size: of their vectors.
        said: bytes a second that all say that they send.
        sent: bytes a second that each sends, by value.
        stops_after: seconds, by value.
    """
    averagers: list[Watched] = []
    for number, (value, speed) in enumerate(sent.items()):
        known = addresses(averagers[0].dht) if averagers else []
        network = Network(initial_peers=known, listen=("/ip4/127.0.0.1/tcp/0",))
        dht = join_dht("lines", load_identity(folder / f"{number}.key"), network)
        stack.callback(dht.shutdown)
        one = Watched(
            [torch.full((size,), value)],
            dht,
            notes=folder / f"{number}.parts",
            stops_after=stops_after.get(value),
            prefix="lines",
            gate=None,
            heaviest=1.0,
            own_caps=Caps(upload=Cap(speed)),
            own_line=OwnLine(Line(Direction(measured=(said,)))),
            min_matchmaking_time=MATCHMAKING,
            request_timeout=5.0,
            next_chunk_timeout=PATIENCE,
            sender_timeout=PATIENCE,
            reducer_timeout=2 * PATIENCE,
            allreduce_timeout=PATIENCE,
            start=True,
        )
        stack.callback(one.shutdown)
        averagers.append(one)
    return averagers


def cell(number: int) -> Cell:
    """Where four look for each other in a round."""
    return Cell(number, "", MATCHMAKING, 4)


def parts(folder: Path, number: int) -> list[int]:
    """What a peer averaged in each round."""
    return [int(line) for line in (folder / f"{number}.parts").read_text().splitlines()]


def test_whoever_overstates_its_line_makes_one_round_late(tmp_path: Path):
    runs_well(average_with_a_liar, tmp_path)


def average_with_a_liar(folder: Path) -> None:
    """Of four, the last one says that its line is as fast as the others', and sends 3 MB a second."""
    size = 3 * MEGA // 2  # numbers of 4 bytes
    with contextlib.ExitStack() as stack:
        fast = 100.0 * MEGA
        members = start_averagers(folder, stack, size, fast, {0.0: fast, 1.0: fast, 2.0: fast, 3.0: 3.0 * MEGA})
        for number in range(2):
            rounds = [one.step(gather=number, cell=cell(number), wait=False, timeout=30.0) for one in members]
            for ended in [one.result(60.0) for one in rounds]:
                assert (len(ended), ended.problem) == (4, None)
        for number in range(4):
            believed, corrected = parts(folder, number)
            assert believed == size // 4
            assert corrected == (size // 3 if number < 3 else 0)
    end_process()


def test_whoever_stands_still_costs_no_more_than_the_plan_allows(tmp_path: Path):
    runs_well(average_with_one_that_stops, tmp_path)


def average_with_one_that_stops(folder: Path) -> None:
    """Four send 1 MB a second; in the middle of their round the last one stops, and goes on when it is over."""
    size, speed, values = MEGA // 2, 1.0 * MEGA, [0.0, 2.0, 7.0, 9.0]
    with contextlib.ExitStack() as stack:
        members = start_averagers(folder, stack, size, speed, dict.fromkeys(values, speed), {9.0: 1.5})
        *living, stopping = members
        began = time.monotonic()
        rounds = [one.step(gather=0, cell=cell(0), wait=False, timeout=30.0) for one in members]
        ended = [one.result(PATIENCE) for one in rounds[:-1]]
        took = time.monotonic() - began
        predicted = 6 / 4 * 4 * size / speed
        assert took < predicted + 2 * longest_silence(predicted, PATIENCE) + 10.0 < PATIENCE
        for one, group, own in zip(living, ended, values, strict=False):
            assert group.problem is not None
            assert group.problem.endswith("% of the mean was lost: a peer left")
            with one.get_tensors() as (mean,):
                of_all, of_living, lost = ((mean == value).float().mean().item() for value in (4.5, 3.0, own))
            assert of_all > 0.1
            assert of_living > 0.1
            assert 0.05 < lost <= 0.26  # of its part; that of whoever stopped
            assert of_all + of_living + lost == pytest.approx(1.0)
        os.kill(stopping.pid, signal.SIGCONT)
        with contextlib.suppress(Exception):
            assert rounds[-1].result(30.0).problem
        assert rounds[-1].done()
    end_process()


def test_a_newcomer_knows_its_line_when_it_has_taken_over_a_state(tmp_path: Path):
    try:
        with made_hosts("donor", "newcomer") as hosts:
            hosts.limit("newcomer", upload=4.0, download=8.0)
            donor = start_function(give_state, tmp_path, hosts.namespace("donor"), out=tmp_path / "donor")
            newcomer = start_function(get_state, tmp_path, hosts.namespace("newcomer"), out=tmp_path / "newcomer")
            try:
                assert newcomer.wait(PATIENCE) == 0, (tmp_path / "newcomer").read_text()
            finally:
                for peer in (donor, newcomer):
                    peer.kill_all()
    except NoHosts as error:
        pytest.skip(str(error))


@contextlib.contextmanager
def state_averager(folder: Path, number: int, known: list[str], line: OwnLine) -> Iterator[StepwiseAverager]:
    network = Network(initial_peers=known, listen=("/ip4/0.0.0.0/tcp/0",))
    dht = join_dht("lines", load_identity(folder / f"{number}.key"), network)
    one = StepwiseAverager(
        [torch.full((MEGA,), float(number))],
        dht,
        prefix="lines",
        gate=None,
        heaviest=1.0,
        own_line=line,
        min_matchmaking_time=MATCHMAKING,
        request_timeout=5.0,
        start=True,
    )
    try:
        yield one
    finally:
        one.shutdown()
        dht.shutdown()


def give_state(folder: Path, namespace: str) -> None:
    """Until it is killed."""
    move_to(namespace)
    with state_averager(folder, 0, [], OwnLine()) as donor:
        own = [address for address in addresses(donor.dht) if "/127." not in address]
        write_file(folder / "addresses", "\n".join(own))
        time.sleep(PATIENCE)


def get_state(folder: Path, namespace: str) -> None:
    """4 MB by a line of 8 Mbit/s, and a probe: it is known here, in another process than that of the averager."""
    move_to(namespace)
    while not (folder / "addresses").exists():
        time.sleep(0.1)
    line = OwnLine()
    with state_averager(folder, 1, (folder / "addresses").read_text().splitlines(), line) as newcomer:
        loaded = None
        while loaded is None:  # the donor may not have said yet that it has one
            loaded = newcomer.download_state(Wanted(), timeout=60.0)
        torch.testing.assert_close(loaded[1][0], torch.zeros(MEGA))
        assert line.download == pytest.approx(1.0 * MEGA, rel=0.15)
        deadline = time.monotonic() + PATIENCE / 2
        while not line.upload_was_seen:
            assert time.monotonic() < deadline, "no probe was made"
            time.sleep(0.1)
        assert line.upload == pytest.approx(0.5 * MEGA, rel=0.15)
    end_process()
