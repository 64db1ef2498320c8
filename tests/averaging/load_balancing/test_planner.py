"""A convener's plan for a round: parts by what lines carry, and who computes gradients in the next step."""

from functools import partial

import pytest

from averaging.load_balancing.plan import GlobalStep
from averaging.load_balancing.planner import plan_round
from averaging.protocol.messages import Bandwidth
from averaging.protocol.rounds.parts import MemberProfile, Planned, checked, equal_parts

CHUNKS = 96
SMALL, LARGE = (GlobalStep(CHUNKS, 12e6, samples) for samples in (200, 20_000))


def member(name: str, speed: float, upload: float | None, *, sends: bool = True, rests: bool = False) -> MemberProfile:
    """A reachable peer of so many samples a second and Mbit/s (up; five times as many down)."""
    bandwidth = None if upload is None else Bandwidth(upload, 5 * upload)
    return MemberProfile(name, sends, True, bandwidth, speed, rests)


def planned(step: GlobalStep, *members: MemberProfile) -> Planned:
    """What comes out, which covers all chunks."""
    found = plan_round(step, CHUNKS, members)
    assert checked(found.parts, CHUNKS, members) == found.parts
    return found


GPU, HOST, LAPTOP = member("gpu", 100.0, 20.0), member("host", 1.0, 200.0), member("laptop", 10.0, 2.0)


def test_a_line_that_all_would_wait_for_sends_no_gradients() -> None:
    found = planned(SMALL, GPU, HOST, LAPTOP)
    assert found.resting == ("laptop",)
    assert found.step_seconds < 12e6 * 8 / 2e6
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
