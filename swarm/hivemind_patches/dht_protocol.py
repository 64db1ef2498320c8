"""The DHT's calls between nodes, where peers show passes.

Upstream gives one authorizer to all stubs, which does not know whom it calls, and limits neither the keys of a call nor
those of an answer. It believes what an answer says of its own lifetime, keeps it for so long, and passes it on. It also
names the class of its protocol where it makes the object, so it is replaced by name.
"""

from collections.abc import Collection
from typing import Any, TypeAlias

import hivemind.dht.node
from hivemind.dht.protocol import DHTProtocol
from hivemind.dht.routing import DHTID
from hivemind.dht.storage import DictionaryDHTValue
from hivemind.p2p import P2PContext, PeerID
from hivemind.proto import dht_pb2
from hivemind.utils.auth import AuthRole, AuthRPCWrapper
from hivemind.utils.timed_storage import ValueWithExpiration

from swarm.access.passes import PassRefused
from swarm.access.refusals import count_refusal

Found: TypeAlias = ValueWithExpiration[bytes | DictionaryDHTValue] | None

MOST_KEYS = 64  # in one call; an answer holds all that is known under each


class PassProtocol(DHTProtocol):
    """hivemind's calls between nodes, with passes on both sides and a limit on what a call may ask for."""

    def get_stub(self, peer: PeerID) -> AuthRPCWrapper:
        """A stub whose authorizer knows the called peer."""
        bare = super(DHTProtocol, self).get_stub(self.p2p, peer)
        return AuthRPCWrapper(bare, AuthRole.CLIENT, self.authorizer.toward(peer) if self.authorizer else None)

    async def call_find(self, peer: PeerID, keys: Collection[DHTID]) -> dict[DHTID, tuple[Found, Any]] | None:
        """As upstream, but an answer lives as long as the newest of its records, which their authors have signed."""
        answers = await super().call_find(peer, keys)
        return answers and {key: (_as_signed(found), nearest) for key, (found, nearest) in answers.items()}

    async def rpc_store(self, request: dht_pb2.StoreRequest, context: P2PContext) -> dht_pb2.StoreResponse:
        """As upstream, for at most `MOST_KEYS`."""
        if len(request.keys) > MOST_KEYS:  # no refusal is counted: an honest peer may pass on what others stored
            return dht_pb2.StoreResponse(store_ok=[False] * len(request.keys), peer=self.node_info)
        return await super().rpc_store(request, context)

    async def rpc_find(self, request: dht_pb2.FindRequest, context: P2PContext) -> dht_pb2.FindResponse:
        """As upstream, for at most `MOST_KEYS`."""
        if len(request.keys) > MOST_KEYS:
            count_refusal()
            raise PassRefused(f"a call with {len(request.keys):,} keys; at most {MOST_KEYS} can be asked for at once")
        return await super().rpc_find(request, context)


def _as_signed(found: Found) -> Found:
    """An answer without what its sender alone says of it."""
    if found is None or not isinstance(found.value, DictionaryDHTValue):
        return found
    again = DictionaryDHTValue()
    with found.value.freeze():  # else it compares its length with the most that it says to hold, which may be anything
        for subkey, record in found.value.items():
            again.store(subkey, record.value, record.expiration_time)
    return ValueWithExpiration(again, again.latest_expiration_time) if again else None


def use_pass_protocol() -> None:
    """For nodes that are made in this process from now on."""
    hivemind.dht.node.DHTProtocol = PassProtocol
