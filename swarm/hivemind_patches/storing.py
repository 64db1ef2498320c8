"""A node that stores a record asks others for the nodes near its key, and not for what they have under it.

Upstream asks for the key, and each node answers with all that it has there. Peers store their records of one kind under
one key, so each of them would be sent the whole list, by all that hold it, each time that it tells of itself. So each
search is for a random key that differs in its last bits: nodes have the same order by their distance to it, and nothing
is stored under it.
"""

import random
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from hivemind.dht.node import DHTNode
from hivemind.dht.routing import DHTID
from hivemind.p2p import PeerID

BITS = 64  # of 160: no two nodes differ in these alone


def search_beside_keys() -> None:
    """For all nodes of this process."""
    upstream = DHTNode.find_nearest_nodes

    async def find_nearest_nodes(
        node: DHTNode,
        queries: Collection[DHTID],
        *args: Any,
        found_callback: Callable[..., Awaitable[None]] | None = None,
        **kwargs: Any,
    ) -> dict[DHTID, dict[DHTID, PeerID]]:
        other = 1 + random.getrandbits(BITS)
        keys = {DHTID(key ^ other): key for key in queries}
        if found_callback is not None:
            kwargs["found_callback"] = lambda beside, *nodes: found_callback(keys[beside], *nodes)
        nearest = await upstream(node, list(keys), *args, **kwargs)
        return {keys[beside]: nodes for beside, nodes in nearest.items()}

    DHTNode.find_nearest_nodes = find_nearest_nodes
