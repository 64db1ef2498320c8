"""Peers that hear nothing for a while, and peers that say what cannot be true."""

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from averaging.log.header import Ballot, Head
from averaging.moshpit.group_round import ballot_number
from averaging.protocol.messages import Call, Groups, Log, Message, Status
from tests.averaging.moshpit.swarm import Swarm


@pytest.mark.parametrize("reachable", [0.0, 0.7])
def test_a_coordinator_that_was_cut_off_counts_again(reachable: float) -> None:
    swarm = Swarm(7, 9, 4, reachable=reachable)
    swarm.run(30.0)
    swarm.world.islands = {"coordinator": 1}
    swarm.run(30.0)
    swarm.world.islands = {}
    at = max(swarm.steps())
    swarm.run(60.0)
    assert max(swarm.steps()) >= at + 8
    assert max(swarm.steps()) - min(swarm.steps()) <= 6  # one that has missed many means loads a state
    coordinator, *others = swarm.living()
    assert all(one.machine.progress.counter(swarm.world.now) == coordinator.session for one in others)


def test_a_coordinator_without_the_state_of_the_others_counts_for_them() -> None:
    swarm = Swarm(10, 9, 4)
    swarm.run(30.0)
    swarm.living()[0].die()
    swarm.liars = {one.contact.user for one in swarm.peers}  # nobody gives it a state that it can use
    swarm.run(1.0)
    swarm.start("coordinator", 0, is_coordinator=True, state=np.zeros(3))
    at = max(swarm.steps())
    swarm.run(60.0)
    *others, again = swarm.living()
    assert again.contact.is_coordinator and again.step < at
    assert min(one.step for one in others) >= at + 8
    swarm.liars.clear()
    swarm.run(60.0)
    assert again.step >= max(swarm.steps()) - 1


def test_a_peer_that_heard_nobody_for_some_seconds_goes_on_to_trust_the_others() -> None:
    swarm = Swarm(6, 9, 4, batches=4)
    swarm.run(30.0)
    others = swarm.living()
    for number, deaf in enumerate(swarm.living()[1:8]):
        swarm.run(7.0 + 0.3 * number)  # at another moment of a step
        deaf.deaf_until = swarm.world.now + 9.0
        others.remove(deaf)  # the others wait for it now, and may blame it later
        for _ in range(24):
            swarm.run(0.5)
            patience = deaf.machine.reducing.patience
            assert all(patience.trusts(one.session, swarm.world.now) for one in others)


def test_a_step_begins_when_the_peer_that_counts_says_so() -> None:
    swarm = Swarm(9, 6, 4)
    swarm.run(30.0)
    coordinator, liar, *others = swarm.living()
    for one in (coordinator, *others):
        for step in (one.step, 2**62):
            one.receive(liar.session, Groups(step, (one.session,), ()), None)
            one.receive(liar.session, Groups(step, (), (one.session,)), None)
        one.receive(coordinator.session, Groups(2**62, (one.session,), ()), None)
    at = max(swarm.steps())
    swarm.run(30.0)
    assert min(swarm.steps()) >= at + 4


def test_a_state_of_a_step_to_come_is_not_taken_over() -> None:
    swarm = Swarm(11, 9, 4, reachable=1.0)
    swarm.run(30.0)
    coordinator, *others = swarm.living()
    send, liars = swarm.world.send, {one.session for one in others[:6]}

    def lying(sender: Any, to: str, message: Message, payload: Any) -> None:
        if sender.session in liars and isinstance(message, Log) and message.snapshot is not None:
            message = replace(message, snapshot=replace(message.snapshot, step=2**62))
        send(sender, to, message, payload)

    swarm.world.send = lying  # type: ignore[method-assign]
    coordinator.die()
    swarm.run(20.0)
    again = swarm.start("coordinator", 0, is_coordinator=True, state=np.zeros(3))
    swarm.run(90.0)
    assert max(swarm.steps()) < 1000
    assert again.step >= max(swarm.steps()) - 6


def test_a_peer_that_counts_and_claims_a_step_to_come_leaves_nobody_behind_for_good() -> None:
    swarm = Swarm(12, 9, 4, reachable=1.0)
    swarm.run(30.0)
    coordinator, *others = swarm.living()
    for one in others:
        one.receive(coordinator.session, Status(Head(2**62, "f" * 64), None, convenes=True), None)
    assert any(one.machine.is_behind for one in others)
    at = max(swarm.steps())
    swarm.run(30.0)
    assert min(swarm.steps()) >= at + 4 and max(swarm.steps()) < 1000


def test_no_calls_of_strangers_are_kept() -> None:
    swarm = Swarm(13, 3, 4)
    swarm.run(30.0)
    (peer, *_) = swarm.living()
    peer.receive(
        "stranger.0", Call("", Ballot(ballot_number(peer.step + 1, 0, of_parameters=False), ""), (), None), None
    )
    assert "stranger.0" not in peer.machine.group_step._early
