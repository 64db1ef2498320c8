"""What a round that averages parameters may do to them: a peer that wants to overwrite everybody's changes nothing."""

from pathlib import Path
from typing import Any

import pytest
import torch

from swarm.dht import addresses
from swarm.identity import load_identity
from tests.averaging.state_averagers import (
    RATE,
    SHAPES,
    average,
    begin_at,
    parameters_in,
    state_averager,
)
from tests.forked import runs_well
from trainer.averaging.copies import REACH, ROUNDING, Copies, Strides, is_off, within
from trainer.leaving import end_process

SPREAD = 0.05  # of honest parameters
STRIDE = RATE  # of Adam, with the same gradient again and again
DRIFT = 0.1 * STRIDE
WILD = 5.0


def honest(seed: int) -> list[torch.Tensor]:
    """A copy that has drifted away from the others' a little."""
    first, drift = torch.Generator().manual_seed(0), torch.Generator().manual_seed(seed)
    values = [SPREAD * torch.randn(shape, generator=first) for shape in SHAPES]
    return [one + DRIFT * torch.randn(one.shape, generator=drift) for one in values]


def rounding(values: torch.Tensor) -> torch.Tensor:
    return ROUNDING * values.abs() + 1e-6


@pytest.mark.swarm
@pytest.mark.faults
@pytest.mark.parametrize("weight", [1.0, 1e6])
def test_who_overwrites_parameters_as_sender_and_as_reducer_changes_nothing(tmp_path: Path, weight: float):
    runs_well(average_with_an_overwriter, tmp_path, weight)


def average_with_an_overwriter(folder: Path, weight: float) -> None:
    """Of three members that reduce a part each, one has wild numbers; the other two average with each other."""
    with (
        state_averager(load_identity(folder / "asha.key"), []) as asha,
        state_averager(load_identity(folder / "bela.key"), addresses(asha.dht)) as bela,
        state_averager(load_identity(folder / "mallory.key"), addresses(asha.dht)) as mallory,
    ):
        mallory.heaviest = 1e9
        before = [honest(1), honest(2)]
        for one, values in zip((asha, bela), before, strict=True):
            begin_at(one, 1, values)
        begin_at(mallory, 1, [WILD * torch.randn(shape) for shape in SHAPES])
        groups = average([asha, bela, mallory], [1.0, 1.0, weight])
        assert [len(group) for group in groups] == [3, 3, 3]
        met = 0
        for one, own, other in zip((asha, bela), before, reversed(before), strict=True):
            for after, value, its in zip(parameters_in(one), own, other, strict=True):
                mean = (value + its) / 2
                way = (after - value).abs() - (its - value).abs()
                assert bool((way <= rounding(value)).all()), "farther than to the other honest copy"
                met += int(((after - mean).abs() <= rounding(value)).sum())
        assert met > 1.2 * sum(one.numel() for one in before[0]), "the honest ones average two thirds"
        assert not asha.copies.is_off and not bela.copies.is_off
        assert mallory.copies.is_off, "had it been a mistake, it would take over a state now"
    end_process()


def test_what_is_near_is_taken_and_what_is_farther_is_taken_in_part():
    own = torch.tensor([1.0, -1.0, 0.0, 2.0])
    assert within(own, own + 0.01, 0.02) is not None
    torch.testing.assert_close(within(own, own + 0.01, 0.02), own + 0.01)
    taken = within(own, own + torch.tensor([0.01, 50.0, -50.0, 0.01]), 0.02)
    assert taken is not None
    torch.testing.assert_close(taken, own + torch.tensor([0.01, 0.02 + ROUNDING, -0.02, 0.01]))


@pytest.mark.parametrize("other", [[50.0, 50.0, 50.0, 0.0], [float("nan")] * 4, [float("inf")] * 4])
def test_of_a_piece_that_is_no_copy_nothing_is_taken(other: list[float]):
    assert within(torch.zeros(4), torch.tensor(other), 0.02) is None


def test_a_copy_is_the_wrong_one_where_most_others_are_far_from_it():
    assert is_off(near=0, far=2, coordinator_is_far=False)
    assert is_off(near=1, far=3, coordinator_is_far=False)
    assert not is_off(near=1, far=1, coordinator_is_far=True), "the coordinator's may be the wrong one"
    assert not is_off(near=0, far=1, coordinator_is_far=False), "nobody can tell which of two it is"
    assert is_off(near=0, far=1, coordinator_is_far=True)


def test_a_stride_is_what_an_optimizer_moves_a_tensor_by():
    parameters = [torch.nn.Parameter(torch.zeros(10)), torch.nn.Parameter(torch.ones(3, 4))]
    groups: list[dict[str, Any]] = [{"params": parameters[:1]}, {"params": parameters[1:], "lr": 0.5}]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    strides = Strides(optimizer)
    parameters[0].grad, parameters[1].grad = torch.ones(10), torch.full((3, 4), 2.0)
    optimizer.step()
    torch.testing.assert_close(strides.newest, torch.tensor([0.1, 1.0]))
    optimizer.zero_grad()
    optimizer.step()
    torch.testing.assert_close(strides.newest, torch.tensor([0.09, 0.9]), msg="a short step is not yet a short way")


def test_a_round_that_went_well_makes_up_for_one_that_did_not():
    copies = Copies(torch.zeros(1), REACH)
    copies.begin(3)
    copies._seen = {"a": -1, "b": -1}
    copies.end([])
    assert copies.is_off
    copies.begin(4)
    copies.end([])
    assert not copies.is_off
