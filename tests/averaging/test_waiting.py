"""A real peer that has computed all that it can weigh in a global step, while the other one is not ready for it."""

import json
import time
from pathlib import Path

import pytest
import torch
import yaml

from swarm.dht import Network, addresses, join_dht
from swarm.durable import write_file
from swarm.identity import load_identity
from swarm.run_file import load_run
from tests.forked import run_together
from trainer.averaging import RoundReport
from trainer.averaging.optimizer import SwarmOptimizer, make_optimizer
from trainer.leaving import end_process

TARGET, BATCH = 100, 30  # samples; of four target batches 13 whole batches are 390
FULL = 390
WAITS = 3.0  # seconds
RUN = {
    "name": "waiting",
    "data": {"train": [{"path": "unused"}]},
    "optimizer": {"warmup_steps": 1, "total_steps": 100},
    "averaging": {"target_batch_size": TARGET, "matchmaking_time": 1.0, "request_timeout": 0.5},
}


@pytest.mark.swarm
@pytest.mark.faults
def test_whoever_has_enough_waits_and_is_not_forgotten_when_a_round_of_the_others_fails(tmp_path: Path):
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(RUN))
    run_together(tmp_path, {work.__name__: (work, (tmp_path,)) for work in (coordinate, train)})
    samples, trained = json.loads((tmp_path / "trainer.json").read_text())
    assert samples == FULL
    assert trained == FULL // BATCH


def begun(folder: Path, name: str, *, holds_state: bool) -> tuple[SwarmOptimizer, torch.nn.Parameter]:
    """A peer; the coordinator is the one by whom the other joins."""
    run, known = load_run(folder / "run.yaml"), folder / "address"
    while not holds_state and not known.exists():
        time.sleep(0.05)
    network = Network(initial_peers=(known.read_text(),) if known.exists() else (), listen=("/ip4/127.0.0.1/tcp/0",))
    identity = load_identity(folder / f"{name}.key")
    dht = join_dht(run.name, identity, network)
    if holds_state:
        write_file(known, addresses(dht)[0])
    parameter = torch.nn.Parameter(torch.zeros(1000))
    groups = [{"params": [parameter], "weight_decay": 0.0}]
    return make_optimizer(run, dht, identity, groups, holds_state=holds_state), parameter


def end(optimizer: SwarmOptimizer) -> None:
    optimizer.linger()
    optimizer.shutdown()
    optimizer.dht.shutdown()
    end_process()


def train(folder: Path) -> None:
    """Until the first global step has been taken; which samples went into it, and how many batches were computed."""
    optimizer, parameter = begun(folder, "trainer", holds_state=False)
    while not optimizer.tracker.others:
        time.sleep(0.05)
    batches = 0
    reports: list[RoundReport] = []
    while not reports:
        if optimizer.trains:
            parameter.grad = torch.ones_like(parameter)
            optimizer.step(BATCH)
            batches += optimizer.local_epoch == 0
        else:
            (folder / "full").touch()
            time.sleep(0.05)
            optimizer.poll()
        reports = optimizer.ended_rounds()
    assert reports[0].problem is None
    write_file(folder / "trainer.json", json.dumps([reports[0].samples, batches]))
    end(optimizer)


def coordinate(folder: Path) -> None:
    """Look away until the trainer has enough, and then have a round that fails."""
    optimizer, _ = begun(folder, "coordinator", holds_state=True)
    while not (folder / "full").exists():
        time.sleep(0.05)
    time.sleep(WAITS)
    optimizer.tracker.round_failed(0, 0)
    while not optimizer.ended_rounds():
        time.sleep(0.05)
        optimizer.poll()
    end(optimizer)
