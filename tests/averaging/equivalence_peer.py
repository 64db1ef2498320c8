"""One peer of the equivalence test: fixed batches, a few global steps, then its parameters to a file."""

import sys
import time
from functools import partial
from pathlib import Path

import torch

from swarm.dht import Network, addresses, join_dht
from swarm.identity import load_identity
from swarm.run_file import load_run
from tests.averaging.fixed_batches import STEPS, fixed_batch, tiny_model
from trainer.averaging import make_optimizer
from trainer.averaging.moshpit.grid import Cell
from trainer.leaving import end_helpers
from trainer.model import parameter_groups


def main(folder: Path, number: int, peers: int) -> None:
    run = load_run(folder / "run.yaml")
    model = tiny_model()
    first = folder / "address"
    while number > 0 and not first.exists():
        time.sleep(0.05)
    identity = load_identity(folder / f"{number}.key")
    network = Network(
        initial_peers=(first.read_text(),) if number else (),
        listen=("/ip4/127.0.0.1/tcp/0",),
        client_mode=number == 1,
    )
    dht = join_dht(run.name, identity, network)
    if number == 0:
        (folder / "address.new").write_text(addresses(dht)[0])
        (folder / "address.new").rename(first)
    optimizer = make_optimizer(run, dht, identity, parameter_groups(model, run.optimizer.weight_decay))
    if run.averaging.target_group_size is None:  # all are one group: it begins when they are there, however late
        everybody = Cell(0, "", run.averaging.matchmaking_time, peers)
        optimizer.grad_averager.schedule_step = partial(optimizer.grad_averager.schedule_step, cell=everybody)
    # a lone peer would go on alone: begin when everybody is there
    (folder / f"{number}.ready").touch()
    while len(list(folder.glob("*.ready"))) < peers:
        time.sleep(0.05)
    optimizer.tracker.report_local_progress(0, samples_accumulated=1)  # who has none is nobody to wait for
    while optimizer.tracker.others < peers - 1:
        time.sleep(0.05)
    for step in range(STEPS):
        sys.stderr.write(f"global step {step}\n")
        batch = fixed_batch(step, number)
        model.zero_grad(set_to_none=True)
        model(batch).loss.backward()
        optimizer.step(batch.samples)
        while optimizer.local_epoch <= step:
            time.sleep(0.05)
            optimizer.poll()
        for report in optimizer.ended_rounds():
            assert report.problem is None and (run.averaging.target_group_size or report.peers == peers), report
    torch.save([parameter.detach() for parameter in model.parameters()], folder / f"{number}.pt")
    optimizer.linger()
    optimizer.shutdown()
    dht.shutdown()
    end_helpers()
