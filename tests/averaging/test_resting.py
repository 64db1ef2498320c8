"""A real swarm in which all would wait for one peer's gradients."""

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
from trainer.averaging.lines.measured import OwnLine
from trainer.averaging.lines.speeds import Direction, Line
from trainer.averaging.optimizer import SwarmOptimizer, make_optimizer
from trainer.leaving import end_process

MEGABIT = 125_000.0  # bytes
ELEMENTS = 400_000  # a byte each on the wire
SPEEDS = (60.0, 40.0, 10.0)  # samples a second
UPLOADS = (20.0, 20.0, 0.1)  # Mbit/s: the last one needs 32 s, the batch 2 s for its gradients
LAST_STEP = 5
RUN = {
    "name": "resting",
    "data": {"train": [{"path": "unused"}]},
    "optimizer": {"warmup_steps": 1, "total_steps": 100},
    "averaging": {
        "target_batch_size": 200,
        "matchmaking_time": 2.0,
        "request_timeout": 1.0,
        "averaging_timeout": 60.0,
        "chunk_timeout": 20.0,
        "state_every": 1000,
    },
}


@pytest.mark.swarm
@pytest.mark.faults
def test_whoever_all_would_wait_for_rests_and_gets_the_same_model(tmp_path: Path):
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(RUN))
    run_together(tmp_path, {f"peer-{number}": (take_steps, (tmp_path, number)) for number in range(3)})
    told = [json.loads((tmp_path / f"{number}.json").read_text()) for number in range(3)]
    assert [len(one["news"]) for one in told] == [0, 0, 1]
    assert "too slow (0.1 Mbit/s up)" in told[2]["news"][0]
    for one in told:  # samples by global step
        assert len(one["samples"]) > LAST_STEP
    assert all(one["samples"][LAST_STEP] > 0 for one in told[:2])
    assert told[2]["samples"][0] > 0
    assert told[2]["samples"][LAST_STEP] == 0
    assert told[0]["model"] == pytest.approx(told[2]["model"], abs=1e-5)


def take_steps(folder: Path, number: int) -> None:
    """One peer, with made-up gradients and a line that it knows."""
    run = load_run(folder / "run.yaml")
    line = OwnLine(Line(Direction(claim=UPLOADS[number] * MEGABIT), Direction(claim=20 * MEGABIT)))
    OwnLine.within = lambda _: line  # type: ignore[method-assign,assignment]
    first = folder / "address"
    while number > 0 and not first.exists():
        time.sleep(0.05)
    network = Network(initial_peers=(first.read_text(),) if number else (), listen=("/ip4/127.0.0.1/tcp/0",))
    identity = load_identity(folder / f"{number}.key")
    dht = join_dht(run.name, identity, network)
    if number == 0:
        write_file(first, addresses(dht)[0])
    parameter = torch.nn.Parameter(torch.zeros(ELEMENTS))
    optimizer = make_optimizer(run, dht, identity, [{"params": [parameter], "weight_decay": 0.0}])
    (folder / f"{number}.ready").touch()
    while len(list(folder.glob("*.ready"))) < len(SPEEDS):  # a lone peer would go on alone
        time.sleep(0.05)
    samples, news = _compute(optimizer, parameter, SPEEDS[number])
    told = {"samples": samples, "news": news, "model": float(parameter.detach().mean())}
    write_file(folder / f"{number}.json", json.dumps(told))
    optimizer.linger()
    optimizer.shutdown()
    dht.shutdown()
    end_process()


def _compute(optimizer: SwarmOptimizer, parameter: torch.nn.Parameter, speed: float) -> tuple[list[int], list[str]]:
    """Until the last step has been taken; samples of each step, and what a volunteer would hear."""
    samples: list[int] = []
    news: list[str] = []
    batch = round(speed / 5.0)
    while len(samples) <= LAST_STEP:
        if optimizer.trains:
            time.sleep(batch / speed)
            parameter.grad = torch.full_like(parameter, speed)
            optimizer.step(batch)
        else:
            time.sleep(0.05)
            optimizer.poll()
        for report in optimizer.ended_rounds():
            assert report.problem is None, report
            samples.append(report.samples)
            news += [report.news] if report.news else []
    optimizer.finish_round()
    return samples, news
