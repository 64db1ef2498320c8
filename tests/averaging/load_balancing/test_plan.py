"""The plan of a group: known strategies come out of it, and roles change for good reason only."""

import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hivemind.averaging.load_balancing import load_balance_peers

from averaging.bandwidth import MEGABIT
from averaging.load_balancing.plan import (
    MOST_REDUCERS,
    GlobalStep,
    NobodyReachable,
    Node,
    Plan,
    Role,
    make_plan,
    plan_round,
    unplanned,
    whole_parts,
)
from averaging.protocol.messages import Bandwidth
from averaging.protocol.rounds.parts import MemberProfile, Planned, covers, equal_parts

MODEL = GlobalStep(chunks=144, wire_bytes=18e6, samples=4096)

CHUNKS = 96
SMALL, LARGE = (GlobalStep(CHUNKS, 12e6, samples) for samples in (200, 20_000))


def peer(speed: float, down: float, up: float, **more: Any) -> Node:
    """Lines in Mbit/s, as people know them."""
    return replace(Node(speed, upload=up * MEGABIT, download=down * MEGABIT), **more)


def volunteers(number: int, seed: int = 0) -> list[Node]:
    rng = np.random.default_rng(seed)
    lines = ((100, 20), (50, 10), (20, 5), (10, 2))
    return [
        peer(float(rng.uniform(1, 40)), *(rate * rng.uniform(0.8, 1.2) for rate in lines[rng.integers(4)]),
             client_mode=bool(number > 1 and rng.random() < 0.5))
        for _ in range(number - 1)
    ] + [peer(0.0, 1000, 1000)]  # fmt: skip


def test_equal_peers_average_equal_parts():
    plan = make_plan([peer(10, 50, 50)] * 8, MODEL)
    assert plan.parts == (18,) * 8
    assert set(plan.roles) == {Role.AGGREGATING_TRAINER}
    assert plan.averaging_seconds == pytest.approx(2 * 7 / 8 * 18e6 / (50 * MEGABIT))  # all-reduce: Patarasuk 2009


def test_one_fat_peer_is_a_parameter_server():
    plan = make_plan([peer(10, 20, 5)] * 7 + [peer(10, 1000, 1000)], MODEL)
    assert plan.parts == (0,) * 7 + (144,)
    assert plan.roles == (Role.TRAINER,) * 7 + (Role.AGGREGATING_TRAINER,)
    assert plan.averaging_seconds == pytest.approx(18e6 / (5 * MEGABIT))  # a thin peer sends its gradients once


def test_firewalled_peers_average_nothing():
    plan = make_plan([peer(10, 50, 50, client_mode=True)] * 5 + [peer(10, 50, 50)] * 2, MODEL)
    assert plan.parts == (0,) * 5 + (72,) * 2
    assert plan.roles[0] is Role.TRAINER


def test_a_gpu_behind_a_thin_line_trains_and_a_fat_host_averages():
    gpus, hosts = [peer(200, 20, 4), peer(180, 25, 5)], [peer(0.5, 1000, 1000), peer(0, 500, 500)]
    plan = make_plan(gpus + hosts, replace(MODEL, samples=8000))
    assert [role.trains for role in plan.roles[:2]] == [True, True]
    assert plan.parts[:2] == (0, 0)
    assert plan.parts[2] > 0
    assert plan.parts[3] > 0
    assert plan.averaging_seconds == pytest.approx(18e6 / (4 * MEGABIT), rel=1e-3)


def test_a_slow_processor_on_a_fat_line_stops_computing_when_that_makes_steps_shorter():
    weak_host = peer(1, 60, 60)
    group = [peer(100, 100, 30)] * 4 + [weak_host]
    plan = make_plan(group, replace(MODEL, samples=512, overlap=False))
    assert plan.roles[-1] is Role.AGGREGATOR
    held = make_plan([replace(one, trained=True) for one in group], replace(MODEL, samples=512, overlap=False))
    assert plan.step_seconds <= held.step_seconds


def test_a_line_too_thin_for_its_gradients_does_not_hold_up_everybody():
    group = [peer(50, 100, 100)] * 4 + [peer(1, 20, 0.5)]
    plan = make_plan(group, replace(MODEL, samples=256))
    assert plan.roles[-1] is Role.LISTENER
    assert make_plan(group, replace(MODEL, samples=100_000)).roles[-1] is Role.TRAINER  # the batch takes long anyway


@pytest.mark.parametrize("seed", range(20))
def test_with_one_symmetric_number_for_each_line_the_plan_is_as_fast_as_hiveminds_rule(seed: int):
    rng = np.random.default_rng(seed)
    rates = [float(f"{rate:.3e}") for rate in np.exp(rng.uniform(1, 4, int(rng.integers(3, 12))))]
    clients = rng.random(len(rates)) < 0.3
    clients[0] = False
    group = [peer(1, rate, rate, client_mode=bool(own)) for rate, own in zip(rates, clients, strict=True)]
    step = replace(MODEL, chunks=18_000_000, samples=1e9)  # everybody trains: hivemind knows no roles
    plan = make_plan(group, step)
    theirs = load_balance_peers(18_000_000, [0.0 if own else rate for rate, own in zip(rates, clients, strict=True)])
    # hivemind leaves the lines of peers in client mode out of its program, so its best can only be as good
    traffic = [1 + (len(rates) - 2) * part / 18_000_000 for part in theirs]
    seconds = max(load * step.wire_bytes / (rate * MEGABIT) for load, rate in zip(traffic, rates, strict=True))
    assert plan.averaging_seconds <= seconds * (1 + 1e-5)
    reducers = max(t / r for t, r, own in zip(traffic, rates, clients, strict=True) if not own)
    ours = [1 + (len(rates) - 2) * part / step.chunks for part in plan.parts]
    assert max(t / r for t, r, own in zip(ours, rates, clients, strict=True) if not own) == pytest.approx(
        reducers, rel=1e-4
    )


@pytest.mark.parametrize("seed", range(20))
def test_chunks_have_one_reducer_each_and_the_number_of_reducers_is_bounded(seed: int):
    step = replace(MODEL, chunks=137 + seed)
    plan = make_plan(volunteers(3 + 5 * seed, seed), step)
    assert sum(plan.parts) == step.chunks
    many = make_plan([peer(10, 50, 50)] * 100, step)
    assert sum(map(bool, many.parts)) == MOST_REDUCERS


@pytest.mark.parametrize("seed", range(30))
def test_whole_parts_are_within_a_chunk_of_their_shares(seed: int):
    rng = np.random.default_rng(seed)
    shares = rng.random(int(rng.integers(1, 40))) * (rng.random(1) < 0.8)
    shares[0] += 0.1
    shares /= shares.sum()
    chunks = int(rng.integers(1, 300))
    sizes = whole_parts(shares, chunks)
    assert sum(sizes) == chunks
    assert np.abs(np.array(sizes) - shares * chunks).max() < 1 + 1e-6
    assert all(share or not size for share, size in zip(shares, sizes, strict=True))


def test_what_rounding_leaves_goes_to_the_largest_shares():
    assert whole_parts(np.ones(3) / 3, 11) == (4, 4, 3)
    assert whole_parts(np.array([0.049, 0.451, 0.5]), 10) == (0, 4, 6)


@pytest.mark.faults
@pytest.mark.parametrize("number, limit", [(64, 0.05), (1024, 1.0)])
def test_a_plan_takes_little_time(number: int, limit: float):
    step, taken = replace(MODEL, samples=2000), []
    for seed in range(5):
        group = volunteers(number, seed)
        began = time.thread_time()
        make_plan(group, step)
        taken.append(time.thread_time() - began)
    assert min(taken) < limit, taken


def test_a_group_that_nobody_can_reach_cannot_average():
    for planned in (make_plan, unplanned):
        with pytest.raises(NobodyReachable, match="client mode"):
            planned([peer(1, 10, 10, client_mode=True)] * 3, MODEL)


def test_a_peer_alone_keeps_everything():
    plan = make_plan([peer(10, 10, 10, client_mode=True)], MODEL)
    assert (plan.parts, plan.averaging_seconds) == ((144,), 0.0)
    assert plan.step_seconds == pytest.approx(409.6)


@pytest.mark.parametrize("seed", range(10))
def test_the_plan_is_never_slower_than_equal_parts(seed: int):
    group, step = volunteers(20, seed), replace(MODEL, samples=500)
    assert make_plan(group, step).step_seconds <= unplanned(group, step).step_seconds * 1.001


def with_roles(group: list[Node], plan: Plan) -> list[Node]:
    return [replace(one, trained=role.trains) for one, role in zip(group, plan.roles, strict=True)]


def test_roles_stay_while_measurements_waver_and_change_for_good_reason():
    step = replace(MODEL, samples=300)
    rng = np.random.default_rng(3)
    group = volunteers(9, 4)
    plan = make_plan(group, step)
    trainers = [role.trains for role in plan.roles]
    for _ in range(30):
        wavering = [
            replace(one, upload=one.upload * rng.uniform(0.96, 1.04), download=one.download * rng.uniform(0.96, 1.04))
            for one in group
        ]
        plan = make_plan(with_roles(wavering, plan), step)
        assert [role.trains for role in plan.roles] == trainers
    slow = next(number for number, own in enumerate(trainers) if own)
    group[slow] = replace(group[slow], upload=group[slow].upload / 20)
    changed = make_plan(with_roles(group, plan), step)
    assert not changed.roles[slow].trains


def test_a_small_gain_changes_no_roles():
    # without the third peer's gradients a step would be shorter by less than a tenth
    group = [peer(50, 100, 21), peer(50, 100, 21), peer(1, 100, 20), peer(0, 1000, 1000)]
    step = replace(MODEL, samples=300)
    free = make_plan(group, step)
    held = make_plan([replace(one, trained=True) for one in group], step)
    assert not free.roles[2].trains
    assert held.roles[2].trains
    assert free.step_seconds < held.step_seconds < free.step_seconds / 0.9


def test_the_worked_example_of_the_documentation():
    notebook, laptop = peer(30, 100, 20, client_mode=True), peer(10, 50, 10)
    group = [notebook, laptop, peer(20, 100, 100), peer(0, 200, 200)]
    step = GlobalStep(chunks=144, wire_bytes=18e6, samples=4096)
    plan = make_plan(group, step)
    assert plan.parts == (0, 0, 24, 120)
    assert (plan.averaging_seconds, plan.computing_seconds) == pytest.approx((14.4, 68.27), rel=1e-3)
    assert unplanned(group, step).averaging_seconds == pytest.approx(24.0)
    hurried = make_plan(group, replace(step, samples=512))
    assert [role.trains for role in hurried.roles] == [True, False, True, False]
    assert (hurried.averaging_seconds, hurried.step_seconds) == pytest.approx((7.2, 10.24))


def member(name: str, speed: float, upload: float | None, *, sends: bool = True, rests: bool = False) -> MemberProfile:
    """A reachable peer of so many samples a second and Mbit/s (up; five times as many down)."""
    bandwidth = None if upload is None else Bandwidth(upload, 5 * upload)
    return MemberProfile(name, sends, True, bandwidth, speed, rests)


def planned(step: GlobalStep, *members: MemberProfile) -> Planned:
    """What comes out, which covers all chunks."""
    found = plan_round(step, CHUNKS, members)
    assert covers(found.parts, CHUNKS)
    assert {part.reducer for part in found.parts} <= {one.session for one in members if one.reachable}
    return found


GPU, HOST, LAPTOP = member("gpu", 100.0, 20.0), member("host", 1.0, 200.0), member("laptop", 10.0, 2.0)


def test_a_line_that_all_would_wait_for_sends_no_gradients() -> None:
    found = planned(SMALL, GPU, HOST, LAPTOP)
    assert found.resting == ("laptop",)
    assert "laptop" not in {part.reducer for part in found.parts}


def test_with_a_large_batch_all_compute() -> None:
    assert planned(LARGE, GPU, HOST, LAPTOP).resting == ()


def test_a_role_is_kept_for_a_small_gain_and_left_for_a_great_one() -> None:
    for speed, resting in ((10.0, ("laptop",)), (30.0, ())):
        laptop = member("laptop", speed, 2.0, sends=False, rests=True)
        assert planned(LARGE, GPU, HOST, laptop).resting == resting


def test_a_peer_without_a_processor_only_reduces_and_is_not_told_to_rest() -> None:
    coordinator = member("coordinator", 0.0, 1000.0, sends=False)
    found = planned(LARGE, coordinator, GPU, LAPTOP)
    assert found.resting == ()
    assert {part.reducer for part in found.parts if part.count > CHUNKS / 2} == {"coordinator"}


def test_parts_are_for_those_that_send_in_this_round() -> None:
    """The GPU has room for most of the averaging where it sends nothing."""
    sent, spared = (
        {part.reducer: part.count for part in planned(LARGE, gpu, member("other", 50.0, 20.0), LAPTOP).parts}
        for gpu in (GPU, member("gpu", 100.0, 20.0, sends=False))
    )
    assert spared["gpu"] > sent["gpu"]


def test_while_most_lines_are_not_known_parts_are_equal_and_all_compute() -> None:
    members = [member("gpu", 100.0, 20.0), *(member(name, 10.0, None) for name in "abc")]
    assert plan_round(SMALL, CHUNKS, members) == equal_parts(CHUNKS, members)
    dead = [member(name, 10.0, 0.0) for name in "abc"]
    assert plan_round(SMALL, CHUNKS, dead) == equal_parts(CHUNKS, dead)


def test_a_newcomer_with_a_line_that_is_not_known_is_never_told_to_rest() -> None:
    thin = [member(name, 1.0, 2.0) for name in ("a", "b")]
    found = planned(SMALL, GPU, member("gpu2", 100.0, 20.0), *thin, member("new", 1.0, None))
    assert "new" not in found.resting
    assert set(found.resting) >= {"a", "b"}


def test_a_peer_that_says_to_compute_more_than_all_others_sends_none_of_them_to_rest() -> None:
    honest = [member(str(number), 20.0, 20.0) for number in range(8)]
    step = GlobalStep(CHUNKS, 12e6, 2000)
    assert planned(step, *honest, member("liar", 1e6, 1000.0)).resting == ()


def test_peers_in_client_mode_reduce_nothing() -> None:
    members = [GPU, HOST, MemberProfile("hidden", True, False, Bandwidth(900.0, 900.0), 50.0)]
    assert "hidden" not in {part.reducer for part in planned(LARGE, *members).parts}


@pytest.mark.parametrize("samples", [1, 200, 20_000])
def test_some_peer_computes_whatever_the_batch(samples: int) -> None:
    step = GlobalStep(CHUNKS, 12e6, samples)
    members = [GPU, HOST, LAPTOP]
    resting = partial(planned, step)(*members).resting
    assert set(resting) < {one.session for one in members}
