"""A trainer's table of experts, kept up to date in the background.

Some five peers of the DHT hold the records of hosts, and send all of them to each that looks: 1.5 KB a host, and 19
bytes for each expert that it serves or copies. So a trainer looks the more rarely the more trainers and hosts there
are, and a host the more rarely the more hosts: to eight trainers each holder sends the records of three hosts, with 32
experts each, at 10 KB a second. For a minute after an expert has lost its host, a trainer looks every five seconds.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from hivemind.p2p import PeerID
from hivemind.utils import get_logger

from experts.directory.assignment import servers
from experts.directory.records import LIFETIME, Directory, Listed
from experts.grid import Uid
from experts.remote.remote_experts import RemoteExperts
from swarm import clock

logger = get_logger(__name__)

LOOK_EVERY = 5.0  # seconds between two looks, at least
SPARING = 0.2  # seconds between two looks, for each pair of a peer that looks and a host
LONGEST = LIFETIME / 2  # seconds between two looks: a host that one of them misses stays listed
SOUGHT = 2 * LIFETIME  # seconds: the record of a host that has gone expires, and a standby takes over


def sparing_pause(hosts: int, looking: int) -> float:
    """Seconds between two looks into the directory, if so many peers look and find so many hosts."""
    return min(LONGEST, SPARING * hosts * looking)


def pause_of_host(others: Sequence[Listed]) -> float:
    """Seconds until the next look of a host that sees these others; 0 while one leaves, since its states go soon.

    It ends with the first record that expires unless it is renewed, because its experts may have to be taken over then.
    """
    if any(host.holdings.leaves for host in others):
        return 0.0
    hosts = len(others) + 1
    return min([sparing_pause(hosts, hosts), *(host.expires - clock.now() for host in others)])


def routes(listed: Sequence[Listed]) -> dict[Uid, PeerID]:
    """The host that serves each expert, and does not leave."""
    peers = {host.holdings.peer: host.peer_id for host in listed if not host.holdings.leaves}
    staying = [host.holdings for host in listed if not host.holdings.leaves]
    return {uid: peers[peer] for uid, peer in servers(staying).items()}


async def follow(
    directory: Directory,
    experts: RemoteExperts,
    trainers: Callable[[], int] = lambda: 1,
    every: float = LOOK_EVERY,
) -> None:
    """Go on for ever. While the DHT does not answer, the last table is used.

    Args:
        trainers: how many look, this one included; may be called in any thread.
        every: seconds between two looks, at least.
    """
    next_look = float("-inf")
    while True:
        begin = clock.now()
        if begin >= next_look or time.monotonic() < experts.lost_at + SOUGHT:
            try:
                listed = await asyncio.to_thread(directory.read)
                experts.use(routes(listed))
                next_look = begin + sparing_pause(len(listed), await asyncio.to_thread(trainers))
            except Exception as error:  # no peer is there, or the DHT is slow: the next look will tell
                logger.debug(f"no word from the DHT about experts: {error!r}")
        await asyncio.sleep(every)
