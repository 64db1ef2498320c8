"""Opens ways between peers that are behind routers, and tells which there are.

What to do when is decided in `calling_out.py`; at which address a peer is seen, others say in their hellos. The daemon
has libp2p's own hole punching, too (DCUtR). It needs a relay and does nothing before four hosts have seen a peer at the
same address, which in small swarms never happens.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from hivemind.p2p import P2P, PeerID
from hivemind.utils import get_logger
from hivemind.utils.multiaddr import Multiaddr

from averaging.log.header import peer_of
from averaging.transport.calling_out import MOST_CALLED, Calls, one_of_each_user, whereabouts
from averaging.transport.contacts_in_dht import Discovery
from averaging.transport.streams import Transport
from swarm.access.greeting import UNREACHED
from swarm.dht.multiaddrs import printed
from swarm.tasks import Tasks, within

logger = get_logger(__name__)

LOOK_EVERY = 2.0  # seconds
PATIENCE = 10.0  # seconds for a call
RELAYED = "/p2p-circuit"


class HolePuncher:
    """Of one session, which accepts no connections.

    Args:
        tell: is told which sessions this peer is connected to, without a relay.
    """

    def __init__(self, p2p: P2P, transport: Transport, discovery: Discovery, tell: Callable[[Iterable[str]], None]):
        self._p2p, self._transport, self._discovery, self._tell = p2p, transport, discovery, tell
        self._calls, self._tasks = Calls(), Tasks()

    async def run(self) -> None:
        """Go on until it is cancelled."""
        try:
            while True:
                try:
                    await self._look()
                except Exception as error:  # the daemon is busy or gone
                    logger.debug(f"no look at connections: {error!r}")
                await asyncio.sleep(LOOK_EVERY)
        finally:
            await self._tasks.cancel()

    async def _look(self) -> None:
        listed = self._discovery.listed
        connected = await self._connected()
        self._tell(connected if len(connected) <= MOST_CALLED else ())
        _, visible = await self._p2p._client.identify()
        own = whereabouts(one_of_each_user(self._transport.seen, listed), printed(visible))
        self._discovery.is_at(own)
        theirs = self._discovery.listing.whereabouts
        others = {
            session: None if contact.reachable else theirs[session].from_there(own) if session in theirs else ()
            for session, contact in listed.items()
        }
        for session, addresses in self._calls.due(others, connected, time.monotonic()).items():
            self._tasks.begin(self._call(session, addresses))

    async def _connected(self) -> set[str]:
        """Sessions to whose peers there is a connection; those through relays do not count."""
        peers = {
            peer.peer_id.to_base58()
            for peer in await self._p2p.list_peers()
            if any(RELAYED not in address for address in printed(peer.addrs))
        }
        return {session for session in self._discovery.listed if peer_of(session) in peers}

    async def _call(self, session: str, addresses: Sequence[str]) -> None:
        try:
            peer_id = PeerID.from_base58(peer_of(session))
            async with within(PATIENCE):
                await self._p2p._client.connect(peer_id, [Multiaddr(one) for one in addresses])
        except UNREACHED as error:
            logger.debug(f"no way to {session} at {', '.join(addresses) or 'its address'}: {error!r}")
        else:
            logger.debug(f"connected to {session}")
