"""Runs in small groups in virtual time: what the mean is, what faults cost, and what is credited."""

import itertools

import numpy as np
import pytest

from averaging.log.header import Header
from averaging.moshpit.group_round import is_first
from averaging.protocol.messages import Commit, Message, Piece, Plan, Reduced
from tests.averaging.moshpit.swarm import Peer, Swarm, Vector, spread


def first_rounds(swarm: Swarm) -> dict[int, list[Header]]:
    """Headers of first rounds by step."""
    steps: dict[int, list[Header]] = {}
    for header in swarm.headers.values():
        steps.setdefault(header.step, []).append(header)
    return steps


def mean_of(swarm: Swarm, headers: list[Header]) -> Vector:
    """Over all gradients that these headers credit."""
    batches = [
        batch
        for header in headers
        for member in header.members
        for number in member.buffers
        for batch in swarm.gradients[member.session, number]
    ]
    total = sum(tokens * gradient for tokens, gradient in batches)
    return np.asarray(total) / sum(tokens for tokens, _ in batches)


def updates(swarm: Swarm, step: int) -> dict[str, Vector]:
    """That peers have applied, by session."""
    return {one.session: update for one in swarm.peers if (update := one.updates.get(step)) is not None}


@pytest.mark.parametrize("trainers, size", [(15, 4), (7, 2), (3, 4)])
def test_on_a_full_grid_all_apply_the_mean_of_all_gradients(trainers: int, size: int) -> None:
    swarm = Swarm(1, trainers, size, tokens=2**8)  # shares of weights are whole numbers
    swarm.run(60.0)
    checked = 0
    for step, headers in first_rounds(swarm).items():
        found = updates(swarm, step)
        if sum(len(header.members) for header in headers) == trainers + 1 == len(found):
            checked += 1
            expected = mean_of(swarm, headers)
            assert all(update == pytest.approx(expected, rel=1e-12) for update in found.values())
    assert checked >= 5
    exact = [step for step, parameters in swarm.averaged.items() if spread(parameters) < 1e-20]
    assert 2 * len(exact) > len(swarm.averaged)  # in the others a peer was late


def test_where_there_is_no_full_grid_peers_stay_near_each_other() -> None:
    swarm = Swarm(2, 24, 4, rounds=2)
    swarm.run(90.0)
    both = [step for step in swarm.averaged if len(swarm.averaged[step]) >= 20]
    assert len(both) >= 4
    before, after = ([spread(one[step]) for step in both] for one in (swarm.parameters, swarm.averaged))
    assert sum(after) < sum(before) / 5
    assert before[-1] < 2 * max(before[:3])  # it does not grow with time


class Killer:
    """Kills the sender of a kind of message at some of the steps, and starts the same person again."""

    def __init__(self, swarm: Swarm, moment: type[Message], *, breaks: bool):
        self.swarm, self.moment, self.breaks = swarm, moment, breaks
        self.struck: list[tuple[float, Peer]] = []
        swarm.sent = self.sent  # type: ignore[method-assign]

    def sent(self, sender: Peer, message: Message) -> None:
        """A message is about to be sent."""
        world = self.swarm.world
        is_time = not self.struck or world.now > self.struck[-1][0] + 30.0
        if (
            isinstance(message, self.moment)
            and is_time
            and 20.0 < world.now < 150.0
            and not sender.contact.is_coordinator
        ):
            self.struck.append((world.now, sender))
            sender.die(breaks=self.breaks)
            world.after(5.0, lambda: self.swarm.start(sender.contact.user, sender.tokens))


@pytest.mark.parametrize("moment, breaks", [(Plan, True), (Piece, False), (Reduced, True), (Commit, False)])
def test_a_kill_costs_no_more_than_a_round_of_its_groups(moment: type, breaks: bool) -> None:
    swarm = Swarm(3, 19, 4, batches=10)  # steps take longer than a group waits
    killer = Killer(swarm, moment, breaks=breaks)
    swarm.run(150.0)
    assert len(killer.struck) >= 3
    at = max(swarm.steps())
    swarm.run(60.0)
    assert max(swarm.steps()) >= at + 4
    assert max(swarm.steps()) - min(swarm.steps()) <= 1
    assert at >= 10, "steps are as slow as if all waited for the dead"
    passed = [one.session for one in swarm.peers for step in range(3, at) if one.updates.get(step, 0) is None]
    assert len(passed) <= 5 * len(killer.struck), "more than a group and some that were late have missed a step"


@pytest.mark.parametrize("seed", range(3))
def test_with_loss_kills_and_newcomers_the_run_goes_on(seed: int) -> None:
    swarm = Swarm(seed, [11, 39, 17, 25][seed % 4], [2, 8, 4][seed % 3], batches=6)
    world = swarm.world
    world.lossy, world.slow = 0.03, 0.02
    swarm.run(20.0)
    for _ in range(8):
        victims = [one for one in swarm.living() if not one.contact.is_coordinator]
        victim = world.random.choice(victims)
        victim.die(breaks=world.random.random() < 0.5)
        swarm.run(3.0)
        swarm.start(victim.contact.user, victim.tokens)
        swarm.run(7.0)
    world.lossy = world.slow = 0.0
    before = max(swarm.steps())
    assert before >= 4
    swarm.run(80.0)
    assert min(swarm.steps()) >= before + 6
    assert max(swarm.steps()) - min(swarm.steps()) <= 1
    last = max(step for step, found in swarm.averaged.items() if len(found) >= 0.8 * len(swarm.living()))
    assert spread(swarm.averaged[last]) < 0.5
    samples = sum(member.samples for header in swarm.headers.values() for member in header.members)
    assert samples >= 0.8 * before * world.settings.target_samples


def test_without_the_coordinator_others_count_and_it_gets_the_headers_when_it_is_back() -> None:
    swarm = Swarm(4, 9, 4)
    swarm.run(30.0)
    coordinator, at = swarm.peers[0], max(swarm.steps())
    coordinator.die()
    swarm.run(60.0)
    assert min(swarm.steps()) >= at + 8
    known = len(swarm.headers)
    assert coordinator.state is not None
    swarm.start("coordinator", 0, is_coordinator=True, state=np.zeros(3))
    swarm.run(40.0)
    again = swarm.peers[-1]
    assert again.step >= max(swarm.steps()) - 1
    assert swarm.loads >= 10
    assert len(swarm.headers) > known
    steps = sorted(first_rounds(swarm))
    assert all(after == before + 1 for before, after in itertools.pairwise(steps)), "steps without credit"


def test_only_first_rounds_are_credited() -> None:
    swarm = Swarm(5, 7, 2)
    swarm.run(40.0)
    assert swarm.headers
    assert all(is_first(header.ballot.number) for header in swarm.headers.values())
    assert {user for header in swarm.headers.values() for user in (one.user for one in header.members)} == {
        one.contact.user for one in swarm.peers
    }


def test_who_gives_a_state_that_cannot_be_used_is_asked_no_more() -> None:
    swarm = Swarm(6, 9, 4)
    swarm.run(30.0)
    honest = swarm.peers[1].contact.user
    swarm.liars = {one.contact.user for one in swarm.peers} - {honest}
    newcomers = [swarm.start(f"newcomer{number}", 10) for number in range(4)]
    swarm.run(120.0)
    assert len(swarm.spoilt) >= 4
    assert all(one.step >= max(swarm.steps()) - 1 for one in newcomers)
    assert len(swarm.spoilt) <= len(newcomers) * (len(swarm.peers) - 1)
