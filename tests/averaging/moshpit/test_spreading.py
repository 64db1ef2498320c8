"""The simulation of `benchmarks/moshpit.py` has the shape of the paper's figure of averaging error."""

import itertools

import pytest

from benchmarks.moshpit import Setting, simulate

ALL = ("allreduce", "moshpit", "random groups", "gossip", "push-sum")


def errors(name: str, failure: float, rounds: int = 6, peers: int = 512, group_size: int = 8) -> list[float]:
    return simulate(Setting(peers, group_size, failure), name, rounds, repeats=3)


def test_without_failures_moshpit_is_exact_after_d_rounds():
    found = errors("moshpit", 0.0)  # 8^3 peers
    assert all(error > 1e-3 for error in found[:3])
    assert found[3:] == [0.0] * 4
    assert errors("allreduce", 0.0)[1] == 0.0


def test_random_groups_fall_by_the_papers_factor():
    # Ryabinin et al. 2021, section 3.2: (r - 1) / N + r / N^2 for N peers in r random groups
    found = errors("random groups", 0.0)
    for before, after in itertools.pairwise(found):
        assert after / before == pytest.approx(63 / 512 + 64 / 512**2, rel=0.3)


def test_with_failures_moshpit_goes_on_falling_where_all_reduce_stands_still():
    assert errors("allreduce", 0.02)[-1] > 0.5  # one of 512 fails in nearly every round
    found = errors("moshpit", 0.02)
    assert all(after < before / 2 for before, after in itertools.pairwise(found))
    assert found[3] < errors("gossip", 0.02)[3]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("failure", [0.0, 0.05])
def test_no_method_moves_away_from_the_mean(name: str, failure: float):
    found = errors(name, failure, peers=300)
    assert found[0] == pytest.approx(1.0, rel=0.2)
    assert found[-1] <= found[0]
