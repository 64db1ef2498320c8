"""Joining the DHT: one call that ends in a working node or in one clear line."""

import asyncio
import os
import re
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import TimeoutError as NoAnswer
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import hivemind.dht.node
import torch
from hivemind.dht import DHT
from hivemind.dht.node import DHTNode
from hivemind.dht.protocol import ValidationError
from hivemind.p2p import P2PDaemonError, PeerID
from hivemind.utils import get_logger
from hivemind.utils.multiaddr import Multiaddr

from swarm.access.gate import Gate
from swarm.access.notice_exchange import keep_noticing
from swarm.access.refusal_backoff import shut_out_whoever_is_refused
from swarm.clock import describe_offset, keep_time
from swarm.dht.guarded import GuardedProtocol, PassAuthorizer
from swarm.dht.message_limits import limit_messages
from swarm.dht.records import validators
from swarm.errors import SwarmError
from swarm.hivemind_patches.kept_tasks import keep_tasks
from swarm.hivemind_patches.whole_messages import WholeMessages
from swarm.identity import Identity
from swarm.logging.logs import capture_hivemind
from swarm.orphans import end_with_parent

logger = get_logger(__name__)

REJOIN_EVERY = 3.0  # seconds between two looks whether the peers we joined by are still known
HOSTS = ("ip4", "ip6", "dns", "dns4", "dns6")  # kinds of host in an address
CLOCKS = re.compile(r"local: ([\d.]+), peer: ([\d.]+)")  # in upstream's words; unix time, seconds
ANSWERED_WITHIN = 30.0  # seconds, of the question for its addresses
CONNECT_TIMEOUT = 5.0  # seconds to wait for one of them to answer


@dataclass(frozen=True)
class Network:
    """How a peer is reached. Addresses are libp2p multiaddrs, as /ip4/1.2.3.4/tcp/31337."""

    initial_peers: Sequence[str] = ()  # known peers, each ending in /p2p/<peer id>; none: this is the first peer
    maybe_there: Sequence[str] = ()  # other peers that were there once; nobody waits for them
    listen: Sequence[str] = ("/ip4/0.0.0.0/tcp/0",)
    announce: Sequence[str] = ()  # what others are told instead of the addresses that we listen on
    client_mode: bool = False  # accept no connections
    relays: Sequence[str] = field(default=())  # relays through which a firewalled peer can be reached


class Node(WholeMessages, DHT):
    """hivemind's DHT node, whose process does not outlive its peer; with an authorizer, it is guarded."""

    def run(self) -> None:
        """See upstream; in the node's own process."""
        # a terminal sends Ctrl-C to the whole process group: libp2p's daemon would be gone before its peer has left
        os.setpgid(0, 0)
        end_with_parent()
        if self.kwargs.get("authorizer"):
            hivemind.dht.node.DHTProtocol = GuardedProtocol  # upstream names the class where it makes the object
        try:
            super().run()
        except (EOFError, OSError) as error:  # the peer has ended while it was telling us something
            logger.debug(f"the DHT node ends with its peer: {error!r}")


def join_dht(run_name: str, identity: Identity, network: Network, gate: Gate | None = None) -> DHT:
    """Start a DHT node with the peer's identity, and keep it joined.

    With a gate, the node speaks only to peers that show a good pass, and hears the organizer's notices.

    Raises:
        SwarmError: an address is no multiaddr, the port is taken, or no initial peer answers.
    """
    for address in (*network.initial_peers, *network.listen, *network.announce, *network.relays):
        check_address(address)
    for peer in network.initial_peers:
        if "/p2p/" not in peer:
            raise SwarmError(f"{peer}: an initial peer's address must end in /p2p/ and its peer id")
    listening: dict[str, Any] = {} if network.client_mode else {"host_maddrs": list(network.listen)}
    if network.announce:
        listening["announce_maddrs"] = list(network.announce)
    if network.relays:
        listening |= {"use_auto_relay": True, "trusted_relays": list(network.relays)}
    if gate:
        listening["authorizer"] = PassAuthorizer(gate)
        shut_out_whoever_is_refused()
    _start_shared_memory()
    keep_time()
    limit_messages()
    keep_tasks()
    capture_hivemind()
    try:
        dht = Node(
            initial_peers=list(network.initial_peers) or None,
            client_mode=network.client_mode,
            identity_path=str(identity.path),
            # the key file is locked on this machine; asking the swarm costs a second and refuses a quick restart
            check_if_identity_free=False,
            record_validators=validators(run_name, identity, gate),
            start=True,
            **listening,
        )
    except (P2PDaemonError, ValidationError, RuntimeError, OSError) as error:
        raise SwarmError(_explain(error, network)) from None
    if greeted := (*network.initial_peers, *network.maybe_there):
        threading.Thread(target=_stay_joined, args=(dht, greeted), name="stay-joined", daemon=True).start()
    if gate:
        threading.Thread(target=keep_noticing, args=(dht, gate), name="notices", daemon=True).start()
    return dht


def addresses(dht: DHT) -> list[str]:
    """The addresses, with peer id, by which others join through this peer; those of this machine alone come last.

    Raises:
        SwarmError: the node does not answer.
    """
    asked = dht.run_coroutine(partial(DHT._get_visible_maddrs, latest=True), return_future=True)
    try:
        return sorted(map(str, asked.result(ANSWERED_WITHIN)), key=is_loopback)
    except NoAnswer:
        raise SwarmError(f"the DHT node did not answer within {ANSWERED_WITHIN:.0f} s; start again") from None


def is_address(address: str) -> bool:
    """Whether this is a libp2p multiaddr."""
    try:
        check_address(address)
    except SwarmError:
        return False
    return True


def leads_to(address: str, peer_id: PeerID) -> bool:
    """Whether an address is a plain one of this peer: a host, a TCP port and the peer's id."""
    parts = list(Multiaddr(address).items()) if is_address(address) else []
    if len(parts) != 3:
        return False
    host, port, peer = parts
    kinds = host[0].name, port[0].name, peer[0].name
    return kinds in {(kind, "tcp", "p2p") for kind in HOSTS} and peer[1] == str(peer_id)


def is_loopback(address: str) -> bool:
    """Whether a multiaddr leads nowhere but to the machine that it is used on."""
    return address.startswith(("/ip4/127.", "/ip6/::1/"))


def check_address(address: str) -> None:
    """Raises SwarmError if `address` is not a libp2p multiaddr."""
    try:
        Multiaddr(address)
    except Exception:
        raise SwarmError(
            f"{address or repr(address)}: not an address; expected a form like /ip4/127.0.0.1/tcp/31337/p2p/Qm..."
        ) from None


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
        return f"{', '.join(network.listen)}: the port is in use or not ours to open; choose another one to listen on"
    if clocks := CLOCKS.search(text):
        return describe_offset(float(clocks[2]) - float(clocks[1]), "an initial peer's")
    if "can't access this node" in text:
        return "no connection from outside reaches this machine; use --client-mode, or open the port of --listen"
    if "bootstrap failed" in text or "failed to connect to bootstrap peers" in text or "bootstrap" in text:
        return (
            f"{', '.join(network.initial_peers)}: no initial peer answers; "
            "check the address, that the coordinator is running and reachable, and this machine's clock"
        )
    return f"the swarm could not be joined ({text or type(error).__name__})"


def _stay_joined(dht: DHT, initial_peers: tuple[str, ...]) -> None:
    """Greet the peers we joined by again whenever the routing table has lost them.

    hivemind forgets a node that did not answer once: after a restart of the coordinator two halves
    of a swarm could live on without knowing each other (upstream issues 351 and 387).
    """
    pause = threading.Event()
    while dht.is_alive():
        try:
            dht.run_coroutine(partial(_greet_lost, initial_peers=initial_peers), return_future=True).result(60)
        except Exception as error:  # the DHT is closing, or nobody is there: the next look will tell
            logger.debug(f"could not look for lost peers: {error!r}")
        pause.wait(REJOIN_EVERY)


async def _greet_lost(_dht: DHT, node: DHTNode, initial_peers: tuple[str, ...]) -> None:
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
