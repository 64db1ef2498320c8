"""Peers behind routers find ways to each other, and reduce parts where all others have a way to them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.averaging.swarm.test_swarm import Peers
from tests.support.hosts import NoHosts, made_hosts
from tests.support.routers import Nat

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
PORT = 31337
KINDS = {"asha": Nat.PORT_RESTRICTED, "bela": Nat.PORT_RESTRICTED, "chand": Nat.RESTRICTED}  # and four reduce at most
SYMMETRIC = "dina"


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[Peers]:
    """A coordinator that all can reach; nobody else yet."""
    try:
        with made_hosts("coordinator", *KINDS, SYMMETRIC, routers={**KINDS, SYMMETRIC: Nat.SYMMETRIC}) as hosts:
            found = Peers(tmp_path, hosts=hosts)
            found.port = PORT
            try:
                found.start("coordinator")
                yield found
            finally:
                for peer in found.living.values():
                    peer.process.kill_all()
    except NoHosts as reason:
        pytest.skip(str(reason))


def test_those_whose_calls_meet_reduce_and_one_behind_a_symmetric_router_takes_part(peers: Peers):
    coordinator = peers.living["coordinator"]
    for name in KINDS:
        peers.start(name, client_mode=True)
    everybody = set(KINDS)

    def reducers() -> set[str]:
        return {name for one in coordinator.steps().values() for name in one["reducers"]}

    peers.wait(lambda: everybody <= reducers(), "parts of all behind routers")

    dina = peers.start(SYMMETRIC, client_mode=True)

    def with_her() -> list[set[str]]:
        """Who has reduced in steps to which she has brought something."""
        return [set(one["reducers"]) for one in coordinator.steps().values() if SYMMETRIC in one["members"]]

    peers.wait(lambda: any("chand" in one for one in with_her()), "part of one behind a router that lets her in")
    peers.wait(lambda: len(dina.steps()) >= 3, "three steps of hers")
    peers.check()
    for one in with_her():
        assert not {"asha", "bela"} & one, "she has no way to them"
