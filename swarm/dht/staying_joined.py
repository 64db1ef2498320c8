"""Keeps a DHT node joined.

hivemind forgets a node that did not answer once: after a restart of the coordinator two halves of a swarm could go on
without knowing each other (upstream issues 351 and 387).
"""

import asyncio
import threading
from collections.abc import Sequence
from functools import partial

from hivemind.dht import DHT
from hivemind.dht.node import DHTNode
from hivemind.p2p import PeerID
from hivemind.utils import get_logger
from hivemind.utils.multiaddr import Multiaddr

logger = get_logger(__name__)

REJOIN_EVERY = 3.0  # seconds between two looks at the routing table
CONNECT_TIMEOUT = 5.0  # seconds to wait for a peer to answer


def stay_joined(dht: DHT, initial_peers: Sequence[str]) -> None:
    """Connect again to the peers that we joined by whenever the routing table has lost them, until the DHT ends."""
    pause = threading.Event()
    while dht.is_alive():
        try:
            dht.run_coroutine(partial(_connect_lost, initial_peers=initial_peers), return_future=True).result(60)
        except Exception as error:  # the DHT is closing or no peer answers; tried again
            logger.debug(f"could not look for lost peers: {error!r}")
        pause.wait(REJOIN_EVERY)


async def _connect_lost(_dht: DHT, node: DHTNode, initial_peers: Sequence[str]) -> None:
    known = set(node.protocol.routing_table.peer_id_to_uid)
    for address in map(Multiaddr, initial_peers):
        try:
            peer_id = PeerID.from_base58(address["p2p"])
            if peer_id in known or peer_id == node.peer_id:
                continue
            await asyncio.wait_for(
                node.p2p._client.connect(peer_id, [address.decapsulate(Multiaddr(f"/p2p/{peer_id}"))]),
                CONNECT_TIMEOUT,
            )
            await node.protocol.call_ping(peer_id)
        except Exception as error:  # still away
            logger.debug(f"{address} does not answer yet: {error!r}")
