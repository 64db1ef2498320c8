"""A crowd at the HTTP door for longer than a pass lasts: the swarm goes on, and its trainers renew their passes."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from resource import RLIMIT_NOFILE

import httpx
import psutil
import pytest

from swarm.passes import read_pass
from tests.access.at_the_door import VOLUNTEER
from tests.access.guarded_swarm import TRAINERS, Attack, GuardedSwarm
from tests.peers.small_swarm import text_of

pytestmark = [pytest.mark.swarm, pytest.mark.timeout(900)]
PASS_LIFETIME = 120.0  # seconds; passes are renewed when half of it is left
SIEGE = 150.0  # seconds: no pass lasts as long
USUAL_FILES = 1024  # that a program may open on most systems
MOSTLY = 0.8  # of the global steps, those in which both trainers took part: a busy machine loses a round now and then


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
    assert "renewed over libp2p" not in coordinators_log(swarm)


def test_where_the_volunteers_address_is_refused_passes_are_renewed_over_libp2p(swarm: GuardedSwarm):
    """The attacker sits behind the same router, and uses up the attempts to join of all behind it."""
    told = besiege(swarm, attempts=10.0)
    assert told["refused"] > 100, told
    assert "renewed over libp2p" in coordinators_log(swarm)


def besiege(swarm: GuardedSwarm, meanwhile: Callable[[], None] = lambda: None, **settings: float) -> dict[str, int]:
    """The swarm trains on, with both trainers and new passes; returns what the attacker told."""
    before, done = expiries(swarm), swarm.done()
    with swarm.unharmed():
        attack: Attack = swarm.attack("crowd", meanwhile=meanwhile, seconds=SIEGE, **settings)
    assert all(later > earlier for earlier, later in zip(before, expiries(swarm), strict=True)), swarm.last_words()
    assert max(before) < attack.told("crowd")[0]["began"] + SIEGE, "a pass outlasted the siege"
    taken = [step for step in swarm.steps() if step.step >= done]
    together = sum(step.peers == len(TRAINERS) for step in taken)
    assert together >= MOSTLY * len(taken), swarm.last_words()
    for peer in swarm.peers:
        assert "has expired" not in text_of(peer), text_of(peer)
    return attack.got("crowd")


def expiries(swarm: GuardedSwarm) -> list[float]:
    """When the trainers' passes expire, in unix seconds."""
    found = [next((swarm.folder / "peers" / name).glob("*/pass")) for name in TRAINERS]
    return [read_pass(path.read_bytes()).expires for path in found]


def coordinators_log(swarm: GuardedSwarm) -> str:
    """All that its log files say."""
    return "\n".join(path.read_text(errors="replace") for path in sorted((swarm.state / "logs").glob("*.log*")))
