"""Joining by the link: two members of a run train together, and nobody else gets in."""

from collections.abc import Callable

import pytest

import app.join.background.pass_renewal
from app.join.peer_folder import PEERS
from app.join.problems import ProblemKind
from app.organizing.admin import admin
from coordinator.state_folder import ADMIN_KEY
from swarm.dht import remembered_peers
from tests.support.hub.stand_in import HubStandIn
from tests.support.hub.stand_in import hub_stand_in as hub_stand_in
from tests.support.ports import free_port
from tests.support.small_swarm import SmallSwarm, newest_step_said, run_closely, text_of

pytestmark = pytest.mark.swarm
STEP_SAMPLES = 4096  # some seconds of two trainers


def test_members_train_together_and_others_stay_outside(
    small_swarm: Callable[..., SmallSwarm], hub_stand_in: HubStandIn
):
    tokens = {name: hub_stand_in.add(name) for name in ("alice", "bob", "mallory")}
    swarm = small_swarm(access={"users": ["alice", "bob"]}, target_batch_size=STEP_SAMPLES)
    alice = swarm.trainer("alice", token=tokens["alice"])
    swarm.run_as["bob"] = run_asking_soon
    bob = swarm.trainer("bob", token=tokens["bob"], client_mode=True)
    mallory = swarm.trainer("mallory", token=tokens["mallory"])
    swarm.wait(lambda: mallory.process.poll() is not None, "end of somebody who is not on the list")
    assert mallory.process.returncode == ProblemKind.NOT_ALLOWED
    assert len(text_of(mallory).strip().splitlines()) == 1 and "mallory" in text_of(mallory)

    swarm.wait(lambda: sum(step.peers == 2 for step in swarm.steps()) >= 2, "two global steps of both members")
    assert {session.user for session in swarm.ledger.sessions()} == {"alice", "bob"}
    folders = [swarm.state / "logs", *(swarm.folder / "peers").rglob("logs")]
    logged = b"".join(path.read_bytes() for folder in folders for path in folder.glob("*.jsonl*"))
    assert b"alice was given a pass" in logged and b"First sample counted" in logged
    for token in tokens.values():
        assert all(token not in text_of(peer) for peer in swarm.peers), "a token was shown"
        assert token.encode() not in logged, "a token was logged"

    key = swarm.state / ADMIN_KEY
    admin(swarm.url, key, "announce", "Good evening!")
    admin(swarm.url, key, "ban", "bob")
    again = swarm.trainer("bob-again", token=tokens["bob"])
    swarm.wait(lambda: bob.process.poll() is not None, "end of the banned one")
    assert "The organizer has banned you" in text_of(bob)
    swarm.wait(lambda: "From the organizer: Good evening!" in text_of(alice), "announcement")
    banned_at = swarm.done()
    swarm.wait(lambda: again.process.poll() is not None, "end of the banned one who comes back")
    assert again.process.returncode == ProblemKind.BANNED
    swarm.wait(
        lambda: swarm.done() >= banned_at + 3 and swarm.steps()[-1].peers == 1, "global steps of the one who is left"
    )
    assert "Traceback" not in text_of(alice) + text_of(bob) + text_of(swarm.peers[0])


@pytest.mark.faults
def test_training_goes_on_without_the_coordinator_and_the_pass_is_renewed_when_it_is_back(
    small_swarm: Callable[..., SmallSwarm],
):
    access = {"open": True, "pass_lifetime": 20.0, "port": free_port()}
    swarm = small_swarm(access=access, target_batch_size=STEP_SAMPLES)
    asha = swarm.trainer("asha", asks_for="Asha")
    bela = swarm.trainer("bela", asks_for="Bela")
    swarm.wait(lambda: any(step.peers == 2 for step in swarm.steps()), "global step of two trainers")
    (remembered,) = (swarm.folder / "peers" / "asha").rglob(PEERS)
    swarm.wait(lambda: len(remembered_peers.recall(remembered)) == 3, "word of the other trainer's address")
    swarm.peers[0].kill()
    swarm.wait(lambda: "The coordinator is not answering" in text_of(asha), "word about the coordinator")
    alone = newest_step_said(asha)
    swarm.wait(lambda: newest_step_said(asha) >= alone + 2, "global steps without a coordinator")
    swarm.coordinator()
    swarm.wait(lambda: "The coordinator is back" in text_of(asha), "renewed pass")
    done = newest_step_said(asha)
    swarm.wait_for_step(done + 2)
    assert {session.user for session in swarm.ledger.sessions()} == {"~Asha", "~Bela"}
    assert asha.process.poll() is None and bela.process.poll() is None


def run_asking_soon(arguments: list[str]) -> None:
    """Be a trainer that soon asks for notices over HTTP: in client mode a banned one has no other way to hear of it."""
    app.join.background.pass_renewal.NOTICES_OVERDUE = app.join.background.pass_renewal.FETCH_NOTICES_EVERY = 2.0
    run_closely(arguments)
