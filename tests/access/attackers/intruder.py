"""A peer that speaks the protocols of DHT and log without our program: raw calls and streams, with any credentials.

What a call brought is a gain, told in a few words; being refused is no gain.
"""

import asyncio
import base64
import itertools
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from hivemind.dht.routing import DHTID
from hivemind.dht.validation import DHTRecord
from hivemind.p2p import P2P, PeerID
from hivemind.proto import dht_pb2
from hivemind.utils import get_dht_time
from hivemind.utils.multiaddr import Multiaddr

from averaging.protocol.messages import Chunk, Log, Report, Status, Want, WantLog
from averaging.transport.wire_format import VERSION
from swarm.access.greeting import Hello
from swarm.access.join_messages import JoinAnswer
from swarm.hivemind_patches.dht_protocol import PassProtocol
from swarm.identity import Identity, load_identity
from tests.access.attackers.credentials import Credentials, Scene, Shown, key_of, sealed
from tests.access.attackers.streams import conversation

PATIENCE = 12.0  # seconds for an answer of a busy machine
LARGEST = 128 * 2**20  # bytes that our own daemon lets through: the limit to be tested is theirs
STARTUP = 60.0  # seconds for libp2p's daemon; a crowd of them starts at once on two cores that train
SOURCE = "127.0.0.66"  # address of this machine at which the intruder rings the door: limits are per address
DEEP = b"\xc0"  # tuples in tuples: reading them took a thread's whole stack
for _ in range(500):
    DEEP = b"\xc9" + (1 + len(DEEP)).to_bytes(4, "big") + b"\x40\x91" + DEEP
ABOUT_WORDS = 160  # characters of a refusal that are kept
# what `welcome` has to get from a peer
EVERYTHING = ("a ping's answer", "records and", "a stored record", "a status", "bytes of the state")


class Intruder:
    """A libp2p peer of its own, and what it can ask others for."""

    def __init__(self, scene: Scene, identity: Identity, p2p: P2P):
        self.scene, self.identity, self.p2p = scene, identity, p2p
        self.refusals: list[str] = []

    @classmethod
    async def create(cls, scene: Scene, name: str) -> "Intruder":
        """Start libp2p's daemon with an identity of this name, and connect to every peer of the swarm."""
        identity = load_identity(scene.folder / f"{name}.key")
        p2p = await P2P.create(
            initial_peers=[scene.address],
            identity_path=str(identity.path),
            host_maddrs=["/ip4/127.0.0.1/tcp/0"],
            check_if_identity_free=False,
            startup_timeout=STARTUP,
            persistent_conn_max_msg_size=LARGEST,
        )
        self = cls(scene, identity, p2p)
        for peer in self.targets:
            await self._connect(peer)
        return self

    @property
    def targets(self) -> list[PeerID]:
        """The swarm's peers."""
        return [PeerID.from_base58(peer) for peer in self.scene.peers]

    async def _connect(self, peer: PeerID) -> None:
        """libp2p tells everybody who asks where a peer is."""
        address = Multiaddr(self.scene.address)
        known = [address.decapsulate(Multiaddr(f"/p2p/{peer}"))] if address["p2p"] == str(peer) else []
        for attempt in range(10):
            try:
                await asyncio.wait_for(self.p2p._client.connect(peer, known), PATIENCE)
                return
            except Exception:
                if attempt == 9:
                    raise
                await asyncio.sleep(1.0)

    def enter(self, name: str) -> Credentials:
        """Ask at the door for a real pass, as a volunteer who chooses this name."""
        answer = ask_at_door(self.scene.url, self.identity, name)
        assert answer.status_code == 200, answer.text
        return Credentials(self.identity, JoinAnswer.model_validate_json(answer.content).pass_)

    async def dht(self, credentials: Credentials | None) -> PassProtocol:
        """hivemind's side of a caller in the DHT; without credentials, as its example scripts are."""
        return await PassProtocol.create(
            self.p2p, DHTID.generate(), 20, 5, 5, PATIENCE, client_mode=True,
            authorizer=Shown(credentials) if credentials else None,
        )  # fmt: skip

    async def attempt(self, call: Callable[[], Awaitable[Any]], patience: float = PATIENCE) -> Any:
        """The answer, or None with the refusal noted."""
        try:
            return await asyncio.wait_for(call(), patience)
        except Exception as error:
            self.refusals.append(f"{type(error).__name__}: {error}"[:ABOUT_WORDS])
            return None

    async def gains(self, credentials: Credentials | None) -> list[str]:
        """Try everything that a peer can be asked for, at every peer of the swarm."""
        protocol = await self.dht(credentials)
        shown = credentials.shown if credentials else b""

        async def from_one(peer: PeerID) -> list[str]:
            found = await asyncio.gather(
                self.ping(protocol, peer),
                self.find(protocol, peer),
                self.store_own(protocol, peer, credentials),
                self.converse(peer, shown),
            )
            return [f"{gain} from {peer}" for gain in found if gain]

        return list(itertools.chain(*await asyncio.gather(*map(from_one, self.targets))))

    async def ping(self, protocol: PassProtocol, peer: PeerID) -> str:
        """To be told the node's id, which is the way into its routing table."""
        answer = await self.attempt(lambda: protocol.get_stub(peer).rpc_ping(dht_pb2.PingRequest()))
        return "a ping's answer" if answer is not None and answer.peer.node_id else ""

    async def find(self, protocol: PassProtocol, peer: PeerID) -> str:
        """To read records, or who else is there."""
        results = await self.found(protocol, peer, ("sessions", "contacts", "notices"))
        known = sum(bool(result.value) for result in results)
        others = sum(len(result.nearest_peer_ids) for result in results)
        return f"{known} records and {others} neighbors" if known or others else ""

    async def found(self, protocol: PassProtocol, peer: PeerID, names: tuple[str, ...]) -> list[dht_pb2.FindResult]:
        """What the peer holds under the run's keys."""
        request = dht_pb2.FindRequest(keys=[key_of(self.scene, name) for name in names])
        request.peer.node_id = DHTID.generate().to_bytes()
        answer = await self.attempt(lambda: protocol.get_stub(peer).rpc_find(request))
        return [] if answer is None else list(answer.results)

    async def store_own(self, protocol: PassProtocol, peer: PeerID, credentials: Credentials | None) -> str:
        """To write under one's own subkey."""
        author = credentials or Credentials(self.identity)
        record = sealed(self.scene, author, "gossip", author.identity.subkey, "hello", get_dht_time() + 20)
        return "a stored record" if await self.store(protocol, peer, record) else ""

    async def store(self, protocol: PassProtocol, peer: PeerID, record: DHTRecord) -> bool:
        """Whether the peer keeps the record."""
        request = dht_pb2.StoreRequest(
            keys=[record.key],
            subkeys=[record.subkey],
            values=[record.value],
            expiration_time=[record.expiration_time],
            in_cache=[False],
        )
        answer = await self.attempt(lambda: protocol.get_stub(peer).rpc_store(request))
        return answer is not None and any(answer.store_ok)

    def hello(self, shown: bytes) -> Hello:
        """As one session of this peer."""
        return Hello(VERSION, self.scene.fingerprint, shown, f"{self.identity.peer_id}.0bad0bad")

    async def converse(self, peer: PeerID, shown: bytes) -> str:
        """To be heard by a peer of the log, and to get the state of the run."""
        got = []

        async def ask() -> None:
            async with conversation(self.p2p, peer, self.hello(shown)) as one:
                got.append("a hello")
                await one.ask(Report(None, 0), Status)
                got.append("a status")
                log, _ = await one.ask(WantLog(None), Log)
                assert log.snapshot is not None
                _, manifest = await one.ask(Want((log.snapshot.digest,)), Chunk)
                got.append(f"{len(manifest)} bytes of the state")

        await self.attempt(ask)
        return ", ".join(got)


def ask_at_door(url: str, identity: Identity, name: str, source: str = SOURCE) -> httpx.Response:
    """`POST /api/join`, as `sahaj join` does it."""
    with httpx.Client(transport=httpx.HTTPTransport(local_address=source), timeout=30.0) as client:
        return client.post(f"{url}/api/join", json=join_body(identity, name))


def join_body(identity: Identity, name: str) -> dict[str, str]:
    """What the door wants to know."""
    return {
        "public_key": base64.b64encode(identity.private_key.get_public_key().to_bytes()).decode(),
        "peer_id": str(identity.peer_id),
        "version": "0.1.0",
        "name": name,
    }


def say(message: dict[str, Any]) -> None:
    """A line for the test."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
