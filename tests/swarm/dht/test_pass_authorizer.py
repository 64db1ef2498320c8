"""Calls of the DHT, over real libp2p: a pass is good for the peer that it was given to, on both sides."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hivemind.dht.routing import DHTID
from hivemind.p2p import P2P
from hivemind.p2p.p2p_daemon_bindings.control import ControlClient
from hivemind.utils.auth import AuthRole, AuthRPCWrapper

from swarm.access.gate import Gate
from swarm.access.notices import Notices, sign_notices
from swarm.access.passes import Authority, load_authority
from swarm.dht.pass_authorizer import PassAuthorizer
from swarm.hivemind_patches.blocked_callers import block_refused_callers
from swarm.hivemind_patches.dht_protocol import PassProtocol
from swarm.identity import load_identity

RUN = "small-run"
AN_HOUR = 3600.0


class Peers:
    """Nodes that run in this process, each with a libp2p daemon of its own."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._daemons: list[P2P] = []
        self.authority = load_authority(folder / "authority.key")

    async def start(
        self, name: str, given_by: Authority | None = None, lifetime: float = AN_HOUR, shown_by: "Node | None" = None
    ) -> "Node":
        """A node with a pass of its own from some authority, or with the one that another node shows."""
        folder = self._folder / name
        folder.mkdir()
        identity = load_identity(folder / "identity.key")
        first = [str(one) for one in await self._daemons[0].get_visible_maddrs()] if self._daemons else None
        daemon = await P2P.create(
            initial_peers=first, identity_path=str(identity.path), host_maddrs=["/ip4/127.0.0.1/tcp/0"]
        )
        self._daemons.append(daemon)
        own = (given_by or self.authority).issue(RUN, name, identity.peer_id, lifetime)
        shown = shown_by.gate.own if shown_by else own
        notices = sign_notices(Notices(time=time.time(), pass_time=time.time()), self.authority, RUN)
        gate = Gate(folder, RUN, self.authority.public_key, shown, notices)
        protocol = await PassProtocol.create(
            daemon, DHTID.generate(), 20, 5, 5, 10.0, client_mode=True, authorizer=PassAuthorizer(gate)
        )
        await protocol.add_p2p_handlers(daemon, AuthRPCWrapper(protocol, AuthRole.SERVICER, protocol.authorizer))
        return Node(gate, protocol)

    async def stop(self) -> None:
        """End the daemons."""
        for daemon in self._daemons:
            await daemon.shutdown()


class Node:
    """One of them."""

    def __init__(self, gate: Gate, protocol: PassProtocol):
        self.gate, self.protocol = gate, protocol

    async def hears(self, other: "Node") -> bool:
        """Whether a call of this node's is answered by the other one, and the answer is taken."""
        found = await self.protocol.call_find(other.protocol.p2p.peer_id, [DHTID.generate()])
        return found is not None

    def shows(self, shown: bytes) -> None:
        """From now on this node shows these bytes, and believes everybody."""
        self.protocol.authorizer._gate = SimpleNamespace(
            own=SimpleNamespace(to_bytes=lambda: shown), admit=lambda peer_id, shown: None
        )


@pytest.fixture
def together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Peers], Awaitable[None]]], None]:
    """Run a story of several nodes, and leave none behind."""
    for name in ("add_unary_handler", "stream_handler"):
        monkeypatch.setattr(ControlClient, name, getattr(ControlClient, name))  # put back afterwards
    block_refused_callers()

    def run(story: Callable[[Peers], Awaitable[None]]) -> None:
        async def whole() -> None:
            peers = Peers(tmp_path)
            try:
                await story(peers)
            finally:
                await peers.stop()

        asyncio.run(whole())

    return run


def test_members_hear_each_other(together: Callable[..., None]):
    async def story(peers: Peers) -> None:
        alice, bob = await peers.start("alice"), await peers.start("bob")
        assert await alice.hears(bob) and await bob.hears(alice)

    together(story)


@pytest.mark.parametrize("what", ["another authority's", "expired", "somebody else's"])
def test_a_pass_that_is_not_good_is_refused_when_its_bearer_calls_and_when_it_answers(
    together: Callable[..., None], tmp_path: Path, what: str
):
    async def story(peers: Peers) -> None:
        alice, bob = await peers.start("alice"), await peers.start("bob")
        mallory = await {
            "another authority's": lambda: peers.start("mallory", given_by=load_authority(tmp_path / "another.key")),
            "expired": lambda: peers.start("mallory", lifetime=-1.0),
            "somebody else's": lambda: peers.start("mallory", shown_by=bob),
        }[what]()
        mallory.shows(mallory.gate.own.to_bytes())
        assert not await mallory.hears(alice)
        assert not await alice.hears(mallory)
        assert await alice.hears(bob)

    together(story)


def test_who_answers_without_a_pass_is_not_heard(together: Callable[..., None]):
    async def story(peers: Peers) -> None:
        alice, mallory = await peers.start("alice"), await peers.start("mallory")
        assert await alice.hears(mallory)
        mallory.shows(b"")
        assert not await alice.hears(mallory)

    together(story)
