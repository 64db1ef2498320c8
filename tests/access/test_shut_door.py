"""A crowd at the HTTP door for longer than a pass lasts: the swarm goes on, and its trainers renew their passes."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from resource import RLIMIT_NOFILE

import httpx
import psutil
import pytest

from swarm.access.passes import read_pass
from swarm.logging import logs
from tests.access.attackers.crowds.join_requests import VOLUNTEER
from tests.access.guarded_swarm import TRAINERS, GuardedSwarm

pytestmark = [pytest.mark.swarm, pytest.mark.faults, pytest.mark.timeout(900)]
# seconds; passes are renewed when half of it is left. Attempts count for a minute, then the door has room for a moment:
# not for one renewal after the other, as these come more often
PASS_LIFETIME = 100.0
SIEGE = 150.0  # seconds: no pass lasts as long
USUAL_FILES = 1024  # that a program may open on most systems
MOSTLY = 0.6  # of the global steps, those in which both trainers took part: a busy machine loses a round now and then


@pytest.fixture(scope="module")
def swarm(corpus: Path, tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedSwarm]:
    """A coordinator that may open as many files as is usual, and two trainers at work."""
    folder = tmp_path_factory.mktemp("shut-door")
    one = GuardedSwarm(folder, corpus, tokenizer_folder, pass_lifetime=PASS_LIFETIME)
    try:
        one.start()
        psutil.Process(one.peers[0].process.pid).rlimit(RLIMIT_NOFILE, (USUAL_FILES, USUAL_FILES))
        yield one
    finally:
        one.kill_all()


def test_a_thousand_idle_sockets_cost_no_global_step(swarm: GuardedSwarm):
    def look() -> None:
        """Somebody else comes to the door."""
        transport = httpx.HTTPTransport(local_address=VOLUNTEER)
        with httpx.Client(transport=transport, timeout=30.0) as client:
            assert client.get(f"{swarm.url}/healthz").status_code == 200
        time.sleep(2.0)

    told = besiege(swarm, meanwhile=look)
    assert told["held"] > 0 and told["opened"] >= 1000, told


def test_where_the_volunteers_address_is_refused_passes_are_renewed_over_libp2p(swarm: GuardedSwarm):
    """The attacker sits behind the same router, and uses up the attempts to join of all behind it."""
    told = besiege(swarm, knocking=8)
    assert told["refused"] > 0, told
    logged = "\n".join(path.read_text() for path in (swarm.state / logs.FOLDER).glob("*.jsonl*"))
    for name in TRAINERS:
        assert f"the pass of ~{name} was renewed over libp2p" in logged


def besiege(swarm: GuardedSwarm, meanwhile: Callable[[], None] = lambda: None, **settings: float) -> dict[str, int]:
    """The swarm trains on, with both trainers, and both get new passes meanwhile; returns what the attacker told."""
    done, seen = swarm.done(), expiries(swarm)
    given_before = set(seen)

    def look() -> None:
        seen.update(expiries(swarm))
        meanwhile()

    with swarm.unharmed():
        attack = swarm.attack("crowd", meanwhile=look, seconds=SIEGE, **settings)
    began = attack.told("crowd")[0]["began"]
    assert max(expires for _, expires in given_before) < began + SIEGE, "a pass outlasted the siege"
    assert {name for name, expires in seen if expires - PASS_LIFETIME > began} == set(TRAINERS), swarm.last_words()
    taken = [step for step in swarm.steps() if step.step >= done]
    assert sum(step.peers == len(TRAINERS) for step in taken) >= MOSTLY * len(taken), swarm.last_words()
    return attack.got("crowd")


def expiries(swarm: GuardedSwarm) -> set[tuple[str, float]]:
    """The trainers, and when their passes expire, in unix seconds."""
    found = [(name, next((swarm.folder / "peers" / name).glob("*/pass"))) for name in TRAINERS]
    return {(name, read_pass(path.read_bytes()).expires) for name, path in found}
