"""One peer of the test with kills: it computes at a steady pace until it is told to stop.

It says on its standard output when a round begins, how it ended, and when a global step has been taken.
"""

import sys
import time
from pathlib import Path

from swarm.dht import Network, addresses, join_dht
from swarm.identity import load_identity
from swarm.run_file import load_run
from tests.averaging.fixed_batches import fixed_batch, tiny_model
from trainer.averaging import make_optimizer
from trainer.leaving import end_process
from trainer.model import parameter_groups

PACE = 1.0  # seconds of a batch: eight peers on two cores have time for each other


def say(what: str) -> None:
    sys.stdout.write(f"{time.monotonic():.1f} {what}\n")
    sys.stdout.flush()


def main(folder: Path, number: int, peers: int) -> None:
    """Begin when so many are ready; those who come later find them at work."""
    run = load_run(folder / "run.yaml")
    model = tiny_model()
    first = folder / "address"
    while number > 0 and not first.exists():
        time.sleep(0.05)
    identity = load_identity(folder / f"{number}.key")
    network = Network(initial_peers=(first.read_text(),) if number else (), listen=("/ip4/127.0.0.1/tcp/0",))
    dht = join_dht(run.name, identity, network)
    if number == 0:
        (folder / "address.new").write_text(addresses(dht)[0])
        (folder / "address.new").rename(first)
    optimizer = make_optimizer(run, dht, identity, parameter_groups(model, run.optimizer.weight_decay))
    (folder / f"{number}.ready").touch()
    while len(list(folder.glob("*.ready"))) < peers:
        time.sleep(0.05)
    batches, began, taken = 0, 0, 0
    while not (folder / "stop").exists():
        batch = fixed_batch(batches, number)
        batches += 1
        model.zero_grad(set_to_none=True)
        model(batch).loss.backward()
        optimizer.step(batch.samples)
        if optimizer.rounds_begun > began:
            began = optimizer.rounds_begun
            say(f"began {optimizer.local_epoch - 1}")
        for report in optimizer.ended_rounds():
            say(f"ended {report.step} in a group of {report.peers}: {report.problem}")
        if optimizer.settled_step != taken:
            taken = optimizer.settled_step
            say(f"taken {taken}")
        time.sleep(PACE)
    end_process()
