"""Eight real averagers in groups of two: three rounds make one mean, and one that dies costs the others little."""

import contextlib
from pathlib import Path

import pytest
import torch

from tests.averaging.moshpit.grid_of_averagers import CLIENT, SETTINGS, Fault, one_step, start_averagers, values
from tests.forked import runs_well
from trainer.averaging.moshpit.swarm_grid import GATHERING
from trainer.leaving import end_process

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
PEERS, ROUNDS = 8, 3
WEIGHTS = [0.0, *map(float, range(2, PEERS + 1))]  # of peers who hold 0, 1, 2 ...; the first has no samples
VALUES = torch.arange(float(PEERS))
MEAN = float((VALUES * torch.tensor(WEIGHTS)).sum() / sum(WEIGHTS))


def test_after_three_rounds_in_groups_of_two_eight_peers_have_the_exact_mean(tmp_path: Path):
    runs_well(average, tmp_path)


def average(folder: Path) -> None:
    """In some global steps, in which peers meet others; one is in client mode."""
    with contextlib.ExitStack() as stack:
        averagers = start_averagers(folder, PEERS, stack)
        assert [one.client_mode for one in averagers] == [number == CLIENT for number in range(PEERS)]
        met = []
        for step in range(3):  # of 105 ways to make pairs three steps hardly choose the same
            for number, averager in enumerate(averagers):
                with averager.get_tensors() as (held,):
                    held.fill_(float(number))
            ended = one_step(averagers, WEIGHTS, step)
            assert [(len(group), group.problem) for group, _ in ended] == [(2, None)] * PEERS
            torch.testing.assert_close(values(averagers), torch.full((PEERS, 10), MEAN), rtol=0.0, atol=1e-5)
            met.append(frozenset(frozenset(group) for group, _ in ended))
        assert len(set(met)) > 1
    end_process()


@pytest.mark.parametrize("fault", ["dies", "hangs"])
def test_a_peer_that_dies_or_hangs_in_a_round_costs_the_others_little(tmp_path: Path, fault: Fault):
    runs_well(average_with_a_fault, tmp_path, fault)


def average_with_a_fault(folder: Path, fault: Fault) -> None:
    """The last averager fails in its second round."""
    with contextlib.ExitStack() as stack:
        averagers = start_averagers(folder, PEERS, stack, fault)
        ended = one_step(averagers, WEIGHTS, faulty=1)
        errors = values(averagers[:-1])[:, 0] - MEAN
        # whatever places peers have, four never hear of it, and the others' squared errors fall to a quarter at least
        assert (errors.abs() < 1e-5).sum() >= 4
        assert errors.square().mean() < (VALUES[:-1] - MEAN).square().mean() / 4
        assert [group.problem for group, _ in ended] == [None] * (PEERS - 1)
        # one silence is waited for, by the peer that was in a group with it; the next group waits for that peer
        of_a_round = GATHERING * SETTINGS.request_timeout + SETTINGS.matchmaking_time
        assert max(seconds for _, seconds in ended) < of_a_round * ROUNDS + 2 * SETTINGS.chunk_timeout
    end_process()
