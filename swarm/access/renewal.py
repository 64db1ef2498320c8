"""Renewing a pass over libp2p, where the coordinator's HTTP service is out of reach.

No token is sent. A peer calls the coordinator by the peer id in the authority's notices, so libp2p authenticates both
ends: the call comes from the peer that the pass was given to, and the answer, even a refusal, from the coordinator.
"""

import asyncio
from functools import partial

from hivemind.dht import DHT
from hivemind.dht.node import DHTNode
from hivemind.p2p import PeerID
from hivemind.utils import get_logger

logger = get_logger(__name__)

ANSWERED_WITHIN = 15.0  # seconds
LONGEST = 64 * 1024  # bytes of a request


def renewal_handle(run_name: str) -> str:
    """The name of the call."""
    return f"{run_name}.renew_pass"


def ask_coordinator(dht: DHT, run_name: str, coordinator: str, request: bytes) -> bytes | None:
    """The coordinator's answer, or None if there is none; `coordinator` is its peer id."""
    asking = partial(_ask, coordinator=coordinator, handle=renewal_handle(run_name), request=request)
    answer: bytes | None = dht.run_coroutine(asking, return_future=True).result(2 * ANSWERED_WITHIN)
    return answer


async def _ask(_dht: DHT, node: DHTNode, coordinator: str, handle: str, request: bytes) -> bytes | None:
    """In the node's process, which holds the connections to other peers."""
    try:
        call = node.p2p._client.call_unary_handler(PeerID.from_base58(coordinator), handle, request)
        return bytes(await asyncio.wait_for(call, ANSWERED_WITHIN))
    except Exception as error:  # away, or not listening: the next attempt will tell
        logger.debug(f"the coordinator does not answer over libp2p: {error!r}")
        return None
