"""Passes where the peers of a test have the authority's key and give themselves their own, and a peer with one."""

from pathlib import Path

from hivemind.dht import DHT

from swarm import clock
from swarm.access.gate import Gate
from swarm.access.notices import Notices, sign_notices
from swarm.access.passes import Authority, load_authority
from swarm.access.user_names import COORDINATOR
from swarm.dht.node import Network, join_dht
from swarm.identity import Identity, load_identity


def own_gate(folder: Path, run_name: str, authority: Authority, identity: Identity, user: str) -> Gate:
    """The gate of a peer whose pass lasts for an hour; its files are in `folder`."""
    now = clock.now()
    own = authority.issue(run_name, user, identity.peer_id, 3600.0)
    return Gate(folder, run_name, authority.public_key, own, sign_notices(Notices(now, now), authority, run_name))


def numbered_gate(folder: Path, run_name: str, identity: Identity, number: int) -> tuple[Gate, Authority | None]:
    """The gate of a peer by its number, and for the first one, the coordinator, the authority in the shared folder."""
    authority = load_authority(folder / "authority.key")
    own = folder / f"access-{number}"
    own.mkdir(exist_ok=True)
    return own_gate(own, run_name, authority, identity, user_of(number)), None if number else authority


def user_of(number: int) -> str:
    """The name in the pass of such a peer."""
    return f"peer{number}" if number else COORDINATOR


def lone_node(folder: Path) -> DHT:
    """The DHT node of a peer that nobody joins; its files are in `folder`."""
    identity, authority = load_identity(folder / "identity.key"), load_authority(folder / "authority.key")
    gate = own_gate(folder, "lone", authority, identity, "asha")
    return join_dht("lone", identity, Network(listen=("/ip4/127.0.0.1/tcp/0",)), gate)
