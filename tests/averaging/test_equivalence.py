"""Training in a swarm is training with a larger batch: the claim on which everything else stands."""

from pathlib import Path

import pytest
import torch
import yaml

from averaging.optimizers.lamb import Lamb
from averaging.optimizers.schedule import learning_rate_at
from swarm.run_file import OptimizerSection, load_run
from tests.averaging import equivalence_peer
from tests.averaging.fixed_batches import SAMPLES, STEPS, fixed_batch, joined, tiny_model
from tests.forked import run_together
from trainer.model import parameter_groups


def swarm_parameters(
    folder: Path, peers: int, compression: str, group_size: int | None = None
) -> list[list[torch.Tensor]]:
    """The parameters of each peer after `STEPS` global steps."""
    run = {
        "name": "equivalence",
        "data": {"train": [{"path": "unused"}]},
        # Adam's first updates are g / (|g| + epsilon): a smaller epsilon blows up how gradients near zero are rounded
        "optimizer": {"learning_rate": 0.1, "warmup_steps": 2, "total_steps": 100, "epsilon": 3e-5},
        "averaging": {
            "target_batch_size": peers * SAMPLES,
            "matchmaking_time": 60.0 if group_size is None else 4.0,
            "request_timeout": 2.0,
            "averaging_timeout": 120.0,
            "chunk_timeout": 60.0,
            "state_every": 1000,
            "overlap": False,
            "compression": compression,
            "target_group_size": group_size,
        },
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(run))
    run_together(
        folder, {f"peer-{number}": (equivalence_peer.main, (folder, number, peers)) for number in range(peers)}
    )
    return [torch.load(folder / f"{number}.pt") for number in range(peers)]


def single_parameters(settings: OptimizerSection, peers: int) -> list[torch.Tensor]:
    """The parameters of one process that has all peers' samples in one batch."""
    model = tiny_model()
    optimizer = Lamb(settings, parameter_groups(model, settings.weight_decay))
    for step in range(STEPS):
        model.zero_grad(set_to_none=True)
        model(joined([fixed_batch(step, number) for number in range(peers)])).loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at(settings, step)
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def largest_difference(left: list[torch.Tensor], right: list[torch.Tensor]) -> float:
    return max(float((one - other).abs().max()) for one, other in zip(left, right, strict=True))


def distance(left: list[torch.Tensor], right: list[torch.Tensor]) -> float:
    return float(torch.stack([(one - other).norm() for one, other in zip(left, right, strict=True)]).norm())


@pytest.mark.swarm
def test_three_peers_come_to_the_parameters_of_one_process_with_three_times_the_batch(tmp_path: Path):
    parameters = swarm_parameters(tmp_path, 3, "none")
    reference = single_parameters(load_run(tmp_path / "run.yaml").optimizer, 3)
    initial = [parameter.detach() for parameter in tiny_model().parameters()]
    assert largest_difference(initial, reference) > 0.1  # the steps went somewhere
    for own in parameters:
        assert largest_difference(own, reference) < 1e-5


@pytest.mark.swarm
@pytest.mark.faults
def test_compression_moves_the_parameters_by_a_few_percent_of_the_way_they_went(tmp_path: Path):
    parameters = swarm_parameters(tmp_path, 3, "8bit")
    reference = single_parameters(load_run(tmp_path / "run.yaml").optimizer, 3)
    way = distance([parameter.detach() for parameter in tiny_model().parameters()], reference)
    for own in parameters:
        assert distance(own, reference) < 0.05 * way


@pytest.mark.swarm
@pytest.mark.faults
def test_eight_peers_in_groups_of_two_come_to_the_parameters_of_one_process(tmp_path: Path):
    parameters = swarm_parameters(tmp_path, 8, "none", group_size=2)
    reference = single_parameters(load_run(tmp_path / "run.yaml").optimizer, 8)
    way = distance([parameter.detach() for parameter in tiny_model().parameters()], reference)
    for own in parameters:
        assert distance(own, reference) < 1e-3 * way
