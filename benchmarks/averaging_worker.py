"""One peer of `benchmarks.averaging`: on a host of its own, it averages by one rule after the other."""

import contextlib
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from hivemind.averaging.group_info import GroupInfo
from hivemind.averaging.load_balancing import load_balance_peers
from hivemind.averaging.matchmaking import MatchmakingException
from hivemind.compression import Float16Compression

from swarm.dht import Network, addresses, join_dht
from swarm.durable import write_file
from swarm.identity import load_identity
from tests.faults.hosts import move_to
from trainer.averaging.groups import Group, StepwiseAverager
from trainer.averaging.moshpit.grid import Cell
from trainer.averaging.sharing import Sharing
from trainer.averaging.told import read_told
from trainer.leaving import end_process

RULES = ("equal", "hivemind", "ours")
ELEMENT_BYTES = 2  # of an element as it travels
MATCHMAKING = 10.0  # seconds that a group waits for its last members
ROUND_TIMEOUT = 300.0  # seconds
POLL = 0.1  # seconds


@dataclass(frozen=True)
class Task:
    """What one peer is asked to do."""

    folder: str
    number: int
    namespace: str  # see `tests.faults.hosts`
    uploads: tuple[float, ...]  # of all peers, Mbit/s; 0 in client mode: what hivemind's rule is told
    client_mode: bool
    known: tuple[str, ...]  # addresses
    rounds: int  # by each rule
    elements: int  # of the vector

    def file(self, name: str, number: int | None = None) -> Path:
        """A file of a peer."""
        return Path(self.folder) / f"{name}-{self.number if number is None else number}"


@dataclass(frozen=True)
class RoundTimes:
    """How one round went for one peer."""

    rule: str
    number: int
    began: float  # seconds of the machine's monotonic clock
    ended: float
    peers: int
    problem: str | None
    upload: float  # bytes a second that the peer knew of its own line before
    part: float  # of the vector that it averaged
    sent: int  # bytes that went into its cable, with all headers and whatever else it sent


class RuledAverager(StepwiseAverager):
    """An averager that shares by a given rule, and writes down how its rounds went."""

    def __init__(self, *args: Any, task: Task, rule: str, **kwargs: Any):
        self.task, self.rule = task, rule
        super().__init__(*args, **kwargs)

    def _shared(self, kept: GroupInfo) -> Sharing:
        uploads = _uploads(self.task)
        if self.rule == "ours":
            sharing = super()._shared(kept)
        else:
            told = [uploads[str(peer)] for peer in kept.peer_ids]
            if self.rule == "equal":
                told = [float(upload > 0.0) for upload in told]
            sharing = Sharing(load_balance_peers(self.total_size, told), None)
        self._part = sharing.parts[kept.peer_ids.index(self.peer_id)] / self.total_size
        return sharing

    async def _average_within(self, kept: GroupInfo, **kwargs: Any) -> Group:
        began, upload, sent = time.monotonic(), self.own_line.upload, _sent()
        number = read_told(kept.gathered[0]).step
        problem: str | None = "it ended with an error"
        try:
            group = await super()._average_within(kept, **kwargs)
            problem = group.problem
            return group
        finally:
            ended = time.monotonic()
            times = RoundTimes(
                self.rule, number, began, ended, len(kept.peer_ids), problem, upload, self._part, _sent() - sent
            )
            with self.task.file("rounds").open("a") as file:
                file.write(json.dumps(asdict(times)) + "\n")


def read_rounds(task: Task, number: int | None = None) -> list[RoundTimes]:
    """What a peer has written down."""
    file = task.file("rounds", number)
    return [RoundTimes(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


def work(task: Task) -> None:
    """Average by each rule, as the task says."""
    move_to(task.namespace)
    network = Network(initial_peers=task.known, listen=("/ip4/0.0.0.0/tcp/0",), client_mode=task.client_mode)
    dht = join_dht("averaging", load_identity(task.file("key")), network)
    own = [] if task.client_mode else [one for one in addresses(dht) if "/127." not in one]
    write_file(task.file("here"), json.dumps([str(dht.peer_id), own]))
    _wait_for_all(task, "here")
    for rule in RULES:
        averager = RuledAverager(
            [torch.full((task.elements,), float(task.number))],
            dht,
            task=task,
            rule=rule,
            prefix=rule,
            gate=None,
            heaviest=1.0,
            compression=Float16Compression(),
            client_mode=task.client_mode,
            min_matchmaking_time=MATCHMAKING,
            request_timeout=MATCHMAKING / 2,
            next_chunk_timeout=30.0,
            allreduce_timeout=ROUND_TIMEOUT,
            start=True,
        )
        for number in range(task.rounds + (rule == "ours")):  # in its first round nothing is known
            cell = Cell(number, "", MATCHMAKING, len(task.uploads))  # a group that is complete begins at once
            with contextlib.suppress(MatchmakingException):  # the round counts as failed
                averager.step(gather=number, cell=cell, weight=1.0, timeout=ROUND_TIMEOUT)
            task.file(f"{rule}-{number}-done").touch()
            _wait_for_all(task, f"{rule}-{number}-done")
        averager.shutdown()
    dht.shutdown()
    end_process()


def _uploads(task: Task) -> dict[str, float]:
    """By peer id."""
    ids = [json.loads(task.file("here", number).read_text())[0] for number in range(len(task.uploads))]
    return dict(zip(ids, task.uploads, strict=True))


def _wait_for_all(task: Task, file: str) -> None:
    while not all(task.file(file, number).exists() for number in range(len(task.uploads))):
        time.sleep(POLL)


def _sent() -> int:
    """Bytes that have left this host."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "eth0":
            return int(counts.split()[8])
    raise OSError("this host has no cable")
