"""Joining the DHT, and staying joined: one call that ends in a working node or in one clear line."""

import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as NoAnswer
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from hivemind.dht import DHT
from hivemind.dht.node import DHTNode
from hivemind.dht.protocol import ValidationError
from hivemind.p2p import P2PDaemonError, PeerID
from hivemind.utils import get_logger
from hivemind.utils.multiaddr import Multiaddr

from swarm.access.gate import Gate
from swarm.clock import describe_offset
from swarm.dht.multiaddrs import check_address, is_loopback, quic_beside, quic_host
from swarm.dht.notices_in_dht import LOOK_EVERY, look_for_notices
from swarm.dht.passes_in_dht import PassAuthorizer
from swarm.dht.records import validators
from swarm.errors import NotJoined, SwarmError
from swarm.hivemind_patches.blocked_callers import block_refused_callers
from swarm.hivemind_patches.dht_protocol import use_pass_protocol
from swarm.hivemind_patches.dht_time import use_swarm_clock
from swarm.hivemind_patches.kept_tasks import keep_tasks
from swarm.hivemind_patches.message_limits import limit_messages
from swarm.hivemind_patches.orphans import end_with_parent
from swarm.hivemind_patches.storing import search_beside_keys
from swarm.hivemind_patches.whole_messages import WholeMessages
from swarm.identity import Identity
from swarm.language import mark
from swarm.logging.logs import capture_hivemind
from swarm.tasks import within

logger = get_logger(__name__)

CLOCKS = re.compile(r"local: ([\d.]+), peer: ([\d.]+)")  # in upstream's words; unix time, seconds
ANSWERED_WITHIN = 30.0  # seconds, of the question for its addresses
REJOIN_EVERY = 3.0  # seconds between two looks at the routing table
CONNECT_TIMEOUT = 5.0  # seconds to wait for a peer to answer
LOCAL = "/ip4/127.0.0.1/tcp/0"
PORT_TAKEN = "the port is in use or not ours to open; choose another one to listen on"
ANY_QUIC = ("/ip4/0.0.0.0/udp/0/quic-v1", "/ip6/::/udp/0/quic-v1")


@dataclass(frozen=True)
class Network:
    """How a peer is reached. Addresses are libp2p multiaddrs, as /ip4/1.2.3.4/tcp/31337."""

    initial_peers: Sequence[str] = ()  # known peers, each ending in /p2p/<peer id>; none: this is the first peer
    earlier_peers: Sequence[str] = ()  # peers of an earlier time; joining does not wait for them
    listen: Sequence[str] = ("/ip4/0.0.0.0/tcp/0",)
    announce: Sequence[str] = ()  # what others are told instead of the addresses that we listen on
    client_mode: bool = False  # accept no connections, but for those whose way through the router this peer has opened
    relays: Sequence[str] = ()  # relays through which a firewalled peer can be reached


class Node(WholeMessages, DHT):
    """hivemind's DHT node, whose process ends with its peer, and whose calls carry passes."""

    def run(self) -> None:
        """See upstream; in the node's own process."""
        # a terminal sends Ctrl-C to the whole process group: libp2p's daemon would be gone before its peer has left
        os.setpgid(0, 0)
        end_with_parent()
        use_pass_protocol()
        search_beside_keys()
        try:
            super().run()
        except (EOFError, OSError) as error:  # the peer has ended while it was telling us something
            logger.debug(f"the DHT node ends with its peer: {error!r}")


def join_dht(run_name: str, identity: Identity, network: Network, gate: Gate) -> DHT:
    """Start a DHT node with the peer's identity, and keep it joined.

    The node talks only to peers that show a valid pass, and follows the organizer's notices.

    Raises:
        SwarmError: an address is no multiaddr, the port is taken, or no initial peer answers.
    """
    for address in (*network.initial_peers, *network.listen, *network.announce, *network.relays):
        check_address(address)
    for peer in network.initial_peers:
        if "/p2p/" not in peer:
            raise SwarmError(f"{peer}: an initial peer's address must end in /p2p/ and its peer id")
    if not network.client_mode:
        _see_ports_are_free(network.listen)
    listening: dict[str, Any] = {"host_maddrs": listening_on(network)}
    if network.announce:
        listening["announce_maddrs"] = list(network.announce)
    if network.relays:
        listening |= {"use_auto_relay": True, "trusted_relays": list(network.relays)}
    block_refused_callers()
    _start_shared_memory()
    use_swarm_clock()
    limit_messages()
    keep_tasks()
    capture_hivemind()
    try:
        dht = Node(
            initial_peers=bootstrap_addresses(network) or None,
            client_mode=network.client_mode,
            identity_path=str(identity.path),
            # the key file is locked on this machine; asking the swarm costs a second and refuses a quick restart
            check_if_identity_free=False,
            # looks are for the newest records, so copies on more nodes than store them would only be sent, too;
            # and hivemind fetches all that lies beside a record in its cache each time that the record is stored
            cache_nearest=0,
            cache_locally=False,
            cache_on_store=False,
            record_validators=validators(run_name, identity, gate),
            start=True,
            authorizer=PassAuthorizer(gate),
            **listening,
        )
    except (P2PDaemonError, ValidationError, RuntimeError, OSError) as error:
        raise NotJoined(_explain(error, network)) from None
    if known := (*network.initial_peers, *network.earlier_peers):
        _keep_doing(dht, "stay-joined", partial(_rejoin, dht, known), REJOIN_EVERY)
    _keep_doing(dht, "notices", partial(look_for_notices, dht, gate), LOOK_EVERY)
    return dht


def listening_on(network: Network) -> list[str]:
    """Where the daemon listens.

    One that others can reach also does by QUIC where its port is chosen, so that peers behind routers learn from it at
    which address they are seen: of QUIC, since only there calls of both sides may meet in the middle.
    """
    if network.client_mode:
        return [LOCAL, *ANY_QUIC]
    return [*network.listen, *filter(None, map(quic_beside, network.listen))]


def _see_ports_are_free(listen: Sequence[str]) -> None:
    """Open each port once: libp2p's daemon starts where one of its addresses is free, and the same port of UDP is.

    Raises:
        NotJoined: a port is taken, or not ours to open.
    """
    for address in listen:
        _, kind, host, *rest = address.split("/")
        if kind not in ("ip4", "ip6") or rest[:1] != ["tcp"]:
            continue
        family = socket.AF_INET6 if kind == "ip6" else socket.AF_INET
        try:
            with socket.socket(family) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the daemon's own
                if family == socket.AF_INET6:
                    trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                trial.bind((host, int(rest[1])))
                trial.listen()
        except OSError:
            raise NotJoined(f"{address}: {PORT_TAKEN}") from None


def bootstrap_addresses(network: Network) -> list[str]:
    """By which the swarm is joined. Those behind routers try QUIC first; libp2p falls back to TCP by itself."""
    quic = filter(None, map(quic_beside, network.initial_peers)) if network.client_mode else ()
    return [*network.initial_peers, *quic]


def addresses(dht: DHT) -> list[str]:
    """The addresses, with peer id, by which others join through this peer; those of this machine alone come last.

    Raises:
        SwarmError: the node does not answer.
    """
    asked = dht.run_coroutine(partial(DHT._get_visible_maddrs, latest=True), return_future=True)
    try:
        visible = [one for one in map(str, asked.result(ANSWERED_WITHIN)) if quic_host(one) is None]
        return sorted(visible, key=is_loopback)
    except NoAnswer:
        raise SwarmError(f"the DHT node did not answer within {ANSWERED_WITHIN:.0f} s; start again") from None


def _start_shared_memory() -> None:
    """Start torch's manager of shared memory, which hivemind needs, with no signal in between.

    torch waits for it in a loop that never ends once a signal has interrupted it (2.13, `start_manager` in libshm).
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        torch.zeros(1).share_memory_()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _explain(error: Exception, network: Network) -> str:
    text = " ".join(str(error).split())
    if "address already in use" in text or "failed to listen on any addresses" in text:
        return f"{', '.join(network.listen)}: {PORT_TAKEN}"
    if clocks := CLOCKS.search(text):
        return describe_offset(float(clocks[2]) - float(clocks[1]), mark("another peer's"))
    if "can't access this node" in text:
        return "no connection from outside reaches this machine; use --client-mode, or open the port of --listen"
    if "bootstrap" in text:
        return (
            f"{', '.join(network.initial_peers)}: no initial peer answers; "
            "check the address, that the coordinator is running and reachable, and this machine's clock"
        )
    return f"the swarm could not be joined ({text or type(error).__name__})"


def _keep_doing(dht: DHT, name: str, work: Callable[[], None], every: float) -> None:
    """Do it in a thread until the DHT ends, with pauses of so many seconds."""

    def keep_doing() -> None:
        while dht.is_alive():
            try:
                work()
            except Exception as error:  # the DHT is closing or no peer answers; tried again
                logger.debug(f"{name}: {error!r}")
            time.sleep(every)

    threading.Thread(target=keep_doing, name=name, daemon=True).start()


def _rejoin(dht: DHT, initial_peers: Sequence[str]) -> None:
    """Connect again to the peers that we joined by, if the routing table has lost them.

    hivemind forgets a node that did not answer once: after a restart of the coordinator two halves of a swarm could go
    on without knowing each other (upstream issues 351 and 387).
    """
    dht.run_coroutine(partial(_connect_lost, initial_peers=initial_peers), return_future=True).result(60)


async def _connect_lost(_dht: DHT, node: DHTNode, initial_peers: Sequence[str]) -> None:
    known = set(node.protocol.routing_table.peer_id_to_uid)
    for address in map(Multiaddr, initial_peers):
        try:
            peer_id = PeerID.from_base58(address["p2p"])
            if peer_id in known or peer_id == node.peer_id:
                continue
            async with within(CONNECT_TIMEOUT):
                await node.p2p._client.connect(peer_id, [address.decapsulate(Multiaddr(f"/p2p/{peer_id}"))])
            await node.protocol.call_ping(peer_id)
        except Exception as error:  # still away
            logger.debug(f"{address} does not answer yet: {error!r}")
