"""Decisions without effects: what is due, what an organizer is warned of, how LAMB begins, who is in a group."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hivemind.averaging.group_info import GroupInfo
from hivemind.p2p import PeerID
from hivemind.utils import MSGPackSerializer

from coordinator.bookkeeping import is_due
from coordinator.coordinator import warnings_about
from swarm.run_file import OptimizerSection, parse_run
from trainer.averaging.claims import believed_samples, believed_step, is_beside, is_plausible, newest_believed
from trainer.averaging.lamb import learning_rate_at, make_lamb
from trainer.averaging.told import narrowed

SETTINGS = OptimizerSection(learning_rate=0.01, warmup_steps=4, total_steps=20, weight_decay=0.1)


@pytest.mark.parametrize(
    ("step", "last", "due"),
    [
        (0, -1, True),  # a run that begins
        (3, -1, True),  # never done, whatever the step
        (0, 0, False),
        (9, 0, False),
        (10, 0, True),
        (11, 0, True),  # the multiple itself was passed between two looks
        (11, 10, False),
        (25, 11, True),
        (99, 90, False),
        (100, 90, True),  # the run's end
        (95, 100, False),  # the swarm has gone back
    ],
)
def test_something_is_due_when_a_multiple_of_ten_was_reached(step: int, last: int, due: bool):
    assert is_due(step, last, every=10, total=100) is due


def test_the_last_step_is_due_even_if_it_is_no_multiple():
    assert is_due(97, 90, every=10, total=97)
    assert not is_due(97, 97, every=10, total=97)


@pytest.mark.parametrize(
    ("host", "url", "source", "words"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080", {"path": "text.txt"}, []),  # a run of this machine alone, as the demo's
        ("localhost", "http://localhost:8080", {"path": "text.txt"}, []),
        ("0.0.0.0", "https://run.example.org", {"hub": "some/text"}, []),
        ("0.0.0.0", "http://127.0.0.1:8080", {"hub": "some/text"}, ["access.url"]),
        ("::", "http://[::1]:8080", {"hub": "some/text"}, ["access.url"]),
        ("0.0.0.0", "http://127.0.0.1:8080", {"path": "text.txt"}, ["access.url", "text.txt"]),
        ("127.0.0.1", "https://run.example.org", {"path": "text.txt"}, ["text.txt"]),  # behind a reverse proxy
    ],
)
def test_an_organizer_is_warned_of_what_keeps_others_out(host: str, url: str, source: dict[str, str], words: list[str]):
    content = {"name": "test", "data": {"train": [source]}, "access": {"open": True, "host": host}}
    warnings = warnings_about(parse_run(content, Path("run.yaml")), url)
    assert [word in warning for word, warning in zip(words, warnings, strict=True)] == [True] * len(words)


def test_the_learning_rate_rises_to_its_peak_and_falls_to_zero():
    rates = [learning_rate_at(SETTINGS, step) for step in range(25)]
    assert rates[:5] == pytest.approx([0.0025, 0.005, 0.0075, 0.01, 0.01])
    assert all(later < earlier for earlier, later in pairwise(rates[4:21]))
    assert rates[12] == pytest.approx(0.005)
    assert rates[20:] == [0.0] * 5


def test_without_a_warm_up_the_learning_rate_begins_at_its_peak():
    settings = OptimizerSection(learning_rate=0.01, warmup_steps=0, total_steps=10)
    assert learning_rate_at(settings, 0) == 0.01
    assert learning_rate_at(settings, 9) == pytest.approx(0.001)


def test_lamb_begins_with_all_its_state_and_no_step_taken():
    model, lamb = small_lamb()
    state: dict[torch.Tensor, dict[str, Any]] = lamb.state
    for group in lamb.param_groups:
        assert group["step"] == 0 and group["lr"] == SETTINGS.learning_rate
    for parameter in model.parameters():
        averages = [state[parameter][name] for name in ("exp_avg", "exp_avg_sq")]
        assert all(average.shape == parameter.shape and not average.any() for average in averages)


def test_lamb_leaves_weights_and_gradients_as_they_are_when_it_is_made():
    model = small_model()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    gradients = [torch.full_like(parameter, 0.5) for parameter in model.parameters()]
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        parameter.grad = gradient
    make_lamb(SETTINGS, [{"params": list(model.parameters())}])
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    assert all(parameter.grad is gradient for parameter, gradient in zip(model.parameters(), gradients, strict=True))


def test_without_a_trust_ratio_lamb_is_adam():
    settings = SETTINGS.model_copy(update={"trust_ratio": False, "weight_decay": 0.0, "betas": (0.0, 0.0)})
    model, before = small_model(), small_model()
    adam = make_lamb(settings, [{"params": list(model.parameters())}])
    model(torch.ones(2, 3)).square().sum().backward()
    adam.step()
    for old, new in zip(before.parameters(), model.parameters(), strict=True):
        assert new.grad is not None
        # with no memory an update is the sign of the gradient, whatever the weights
        torch.testing.assert_close(old - new, SETTINGS.learning_rate * new.grad.sign(), rtol=1e-3, atol=1e-6)


def test_the_first_step_of_lamb_is_that_of_a_fresh_one():
    from pytorch_optimizer import Lamb

    model, lamb = small_lamb()
    twin = small_model()
    fresh = Lamb(
        twin.parameters(),
        lr=SETTINGS.learning_rate,
        betas=SETTINGS.betas,
        eps=SETTINGS.epsilon,
        weight_decay=SETTINGS.weight_decay,
        max_grad_norm=SETTINGS.max_gradient_norm,
        pre_norm=True,
    )
    for one, optimizer in ((model, lamb), (twin, fresh)):
        one(torch.ones(2, 3)).square().sum().backward()
        optimizer.step()
    start = small_model()
    for begun, stepped, expected in zip(start.parameters(), model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(stepped, expected)
        assert not torch.equal(stepped, begun)


def test_only_members_stay_in_a_group():
    peers = tuple(PeerID(bytes([number]) * 34) for number in range(4))
    group = GroupInfo(b"group", peers, tuple(gathered(step) for step in (7, 6, 7, 8)))
    kept = narrowed(group, [peers[0], peers[2]])
    assert kept.group_id == b"group"
    assert kept.peer_ids == (peers[0], peers[2])
    assert kept.gathered == (group.gathered[0], group.gathered[2])
    assert narrowed(group, []).peer_ids == ()


@pytest.mark.parametrize(
    ("claims", "believed"),
    [
        ([500], 500),  # the only one there
        ([7, 7, 7], 7),
        ([8, 7, 7], 8),  # one has just gone on
        ([10**6, 7, 7], 7),
        ([10**6, 10**6 - 5, 7, 7, 6], 7),
        ([10**6, 7, 3], 3),  # nobody is near to anybody: the lowest does no harm
    ],
)
def test_a_step_that_nobody_else_is_near_to_is_not_believed(claims: list[int], believed: int):
    assert believed_step(claims) == believed
    assert believed_step(claims[::-1]) == believed


def test_an_impossible_speed_is_not_counted():
    assert is_plausible(7, 5000.0, 0.0, believed=7)
    assert not is_plausible(8, 5000.0, 0.0, believed=7)
    assert not is_plausible(7, 1e9, 0.0, believed=7)
    assert not is_plausible(7, float("nan"), 0.0, believed=7)
    assert not any(is_plausible(7, 5000.0, time, believed=7) for time in (float("nan"), float("-inf")))


@pytest.mark.parametrize(
    ("claims", "own", "newest"),
    [
        ([50, 0], 50, 50),  # a newcomer, or a liar; the coordinator at 50 is believed all the same
        ([51, 0], 50, 51),  # it has taken the step that we have missed
        ([52, 0], 50, 50),  # one word against another: wait for a second
        ([51, 51, 0], 50, 51),
        ([10**6], 50, 10**6),  # it may be the only one that holds the state
        ([], 50, 0),
    ],
)
def test_a_claim_far_behind_makes_nobody_else_a_liar(claims: list[int], own: int, newest: int):
    assert newest_believed(claims, own) == newest


def test_a_leader_takes_along_only_those_who_are_beside_it():
    assert [step for step in range(10) if is_beside(step, own=5)] == [4, 5, 6]


def test_samples_that_nobody_can_have_computed_do_not_count():
    assert believed_samples(10**9, 1.0, step_seconds=0.0) < 1000
    assert believed_samples(10**9, 1.0, step_seconds=600.0) < 10_000
    assert believed_samples(10**9, 1.0, step_seconds=float("inf")) == 10**9  # we came when the step was under way


@pytest.mark.parametrize("speed", [0.0, 0.5, 100.0])
@pytest.mark.parametrize("seconds", [0.0, 5.0, 3600.0])
def test_an_honest_peer_is_believed(speed: float, seconds: float):
    claim = int(2 * speed * (seconds + 10.0))  # twice as fast as it says, and since before we heard of the step
    assert believed_samples(claim, speed, seconds) == claim


def small_model() -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2)


def small_lamb() -> tuple[torch.nn.Linear, torch.optim.Optimizer]:
    model = small_model()
    return model, make_lamb(SETTINGS, [{"params": list(model.parameters())}])


def gathered(step: int) -> bytes:
    """What a peer tells its group, as hivemind packs it: bandwidth, mode, and the data of the round."""
    return bytes(MSGPackSerializer.dumps([1.0, 0, MSGPackSerializer.dumps(step)]))
