"""Opens ways between peers that are behind routers, and tells which there are.

What to do when is decided in `calling_out.py`. The daemon has libp2p's own hole punching, too (DCUtR). It needs a relay
and does nothing before four hosts have seen a peer at the same address, which in small swarms never happens.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from hivemind.p2p import P2P, PeerID
from hivemind.p2p.p2p_daemon_bindings.control import P2PDaemonError
from hivemind.p2p.p2p_daemon_bindings.datastructures import StreamInfo
from hivemind.p2p.p2p_daemon_bindings.utils import ControlFailure
from hivemind.utils import get_logger
from hivemind.utils.multiaddr import Multiaddr

from averaging.log.header import peer_of
from averaging.transport.calling_out import MOST_CALLED, Calls, Whereabout
from averaging.transport.contacts_in_dht import Discovery
from swarm.dht.multiaddrs import quic_host
from swarm.tasks import Tasks, within

logger = get_logger(__name__)

HANDLE = "sahaj.seen"  # a stream on which the other side says at which address it sees us
LOOK_EVERY = 2.0  # seconds
ASK_EVERY = 60.0  # seconds between two questions to the same peer
MOST_ASKED = 4  # peers
MOST_SAYING, MOST_SAYING_TO_ONE = 64, 2  # streams at a time
LONGEST_ADDRESS = 300  # bytes
PATIENCE = 10.0  # seconds for a call, and for an answer
RELAYED = "/p2p-circuit"
UNREACHED = (OSError, EOFError, asyncio.TimeoutError, P2PDaemonError, ControlFailure, ValueError)


def printed(addresses: Iterable[Multiaddr]) -> list[str]:
    """As text. Those of protocols that hivemind does not know are left out: they raise a ValueError."""
    found = []
    for address in addresses:
        with contextlib.suppress(ValueError):
            found.append(str(address))
    return found


class HolePuncher:
    """Of one session.

    Args:
        accepts: whether everybody can connect to this peer; it only tells others where it sees them.
        tell: is told which sessions this peer is connected to, without a relay; it accepts no connections.
    """

    def __init__(self, p2p: P2P, discovery: Discovery, *, accepts: bool, tell: Callable[[Iterable[str]], None]):
        self._p2p, self._discovery, self._accepts, self._tell = p2p, discovery, accepts, tell
        self._where, self._calls, self._tasks = Whereabout(), Calls(), Tasks()
        self._asked_at: dict[str, float] = {}  # by session
        self._saying: Counter[PeerID] = Counter()  # streams on which a peer is told where it is seen

    async def start(self) -> None:
        """Tell others where they are seen, and look for ways to them."""
        await self._p2p.add_binary_stream_handler(HANDLE, self._say)
        if not self._accepts:
            self._tasks.begin(self._run())

    async def stop(self) -> None:
        """Another session may follow."""
        await self._tasks.cancel()
        with contextlib.suppress(*UNREACHED, KeyError):
            async with within(PATIENCE):
                await self._p2p.remove_binary_stream_handler(HANDLE)

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
            except UNREACHED as error:  # the daemon is busy or gone
                logger.debug(f"no look at connections: {error!r}")
            await asyncio.sleep(LOOK_EVERY)

    async def _look(self) -> None:
        ways = await self._connections()
        listed = self._discovery.listed
        connected = {session for session in listed if peer_of(session) in ways}
        self._tell(connected if len(connected) <= MOST_CALLED else ())
        self._where.keep(listed)
        now = time.monotonic()
        for session in self._observers(ways, now):
            self._asked_at[session] = now
            self._tasks.begin(self._ask(session))
        _, visible = await self._p2p._client.identify()
        own = self._where.told(printed(visible))
        self._discovery.is_at(own)
        theirs = self._discovery.whereabouts
        others = {
            session: None if contact.reachable else theirs[session].from_there(own) if session in theirs else ()
            for session, contact in listed.items()
        }
        for session, addresses in self._calls.due(others, connected, now).items():
            self._tasks.begin(self._call(session, addresses))

    async def _connections(self) -> dict[str, list[str]]:
        """Addresses at the other end, by peer; those through relays do not count."""
        found: dict[str, list[str]] = {}
        for peer in await self._p2p.list_peers():
            direct = [address for address in printed(peer.addrs) if RELAYED not in address]
            if direct:
                found.setdefault(peer.peer_id.to_base58(), []).extend(direct)
        return found

    def _observers(self, ways: dict[str, list[str]], now: float) -> list[str]:
        """Whom to ask where it sees us: peers that are behind no router, as far as they are connected by QUIC."""
        listed = self._discovery.listed
        self._asked_at = {session: at for session, at in self._asked_at.items() if session in listed}
        able = [
            session
            for session, contact in listed.items()
            if contact.reachable and any(quic_host(one) is not None for one in ways.get(peer_of(session), ()))
        ]
        able.sort(key=lambda session: (not listed[session].is_coordinator, session))
        return [one for one in able[:MOST_ASKED] if now >= self._asked_at.get(one, float("-inf")) + ASK_EVERY]

    async def _ask(self, session: str) -> None:
        try:
            peer_id = PeerID.from_base58(peer_of(session))
            async with within(PATIENCE):
                _, reader, writer = await self._p2p.call_binary_stream_handler(peer_id, HANDLE)
            try:
                async with within(PATIENCE):
                    said = await reader.read(LONGEST_ADDRESS)
            finally:
                writer.transport.abort()
            self._where.seen_by(session, said.decode())
        except UNREACHED as error:
            logger.debug(f"{session} does not say where it sees us: {error!r}")

    async def _call(self, session: str, addresses: Sequence[str]) -> None:
        try:
            peer_id = PeerID.from_base58(peer_of(session))
            async with within(PATIENCE):
                await self._p2p._client.connect(peer_id, [Multiaddr(one) for one in addresses])
        except UNREACHED as error:
            logger.debug(f"no way to {session} at {', '.join(addresses) or 'its address'}: {error!r}")
        else:
            logger.debug(f"connected to {session}")

    async def _say(self, info: StreamInfo, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Tell a peer at which address this one sees it; anybody may ask, so not many at a time."""
        peer = info.peer_id
        try:
            if self._saying.total() >= MOST_SAYING or self._saying[peer] >= MOST_SAYING_TO_ONE:
                return
            self._saying[peer] += 1
            try:
                writer.write(str(info.addr).encode())
                async with within(PATIENCE):  # it closes the stream when it has heard
                    await reader.read(1)
            finally:
                self._saying -= Counter({peer: 1})
        except UNREACHED as error:
            logger.debug(f"{peer} does not hear where it is seen: {error!r}")
        finally:
            writer.transport.abort()
