"""A trainer's table of experts, kept up to date in the background."""

import asyncio
from collections.abc import Sequence

from hivemind.p2p import PeerID
from hivemind.utils import get_logger

from experts.directory.assignment import servers
from experts.directory.records import Directory, Listed
from experts.grid import Uid
from experts.remote.remote_experts import RemoteExperts

logger = get_logger(__name__)

LOOK_EVERY = 5.0  # seconds


def routes(listed: Sequence[Listed]) -> dict[Uid, PeerID]:
    """The host that serves each expert, and does not leave."""
    peers = {host.holdings.peer: host.peer_id for host in listed if not host.holdings.leaves}
    staying = [host.holdings for host in listed if not host.holdings.leaves]
    return {uid: peers[peer] for uid, peer in servers(staying).items()}


async def follow(directory: Directory, experts: RemoteExperts, every: float = LOOK_EVERY) -> None:
    """Go on for ever. While the DHT does not answer, the last table is used."""
    while True:
        try:
            listed = await asyncio.to_thread(directory.read)
        except Exception as error:  # no peer is there, or the DHT is slow: the next look will tell
            logger.debug(f"no word from the DHT about experts: {error!r}")
        else:
            experts.use(routes(listed))
        await asyncio.sleep(every)
