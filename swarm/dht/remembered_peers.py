"""Remembers addresses of peers on disk: one of them may answer when the coordinator does not."""

import json
from collections.abc import Sequence
from pathlib import Path

from swarm.files import write_file

MOST = 8  # addresses in all; those that do not answer are tried again and again
LONGEST_ADDRESS = 300  # characters


def recall(path: Path) -> list[str]:
    """The remembered addresses; none if there is no readable file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return usable(content) if isinstance(content, list) else []


def remember(path: Path, addresses: Sequence[str]) -> None:
    """Replace what is remembered.

    Raises:
        StorageError: it cannot be written.
    """
    write_file(path, json.dumps(list(addresses[:MOST])))


def merge(current: Sequence[str], remembered: Sequence[str]) -> list[str]:
    """The current addresses first; of the remembered ones those of other peers, as far as there is room."""
    present = {_peer_id(address) for address in current}
    others = [address for address in remembered if _peer_id(address) not in present]
    return [*current, *others][: max(MOST, len(current))]


def usable(addresses: Sequence[object]) -> list[str]:
    """Those that are valid addresses of peers."""
    from swarm.dht.multiaddrs import is_address  # hivemind takes seconds to import

    return [
        address
        for address in addresses
        if isinstance(address, str)
        and len(address) <= LONGEST_ADDRESS
        and address.isprintable()
        and "/p2p/" in address
        and is_address(address)
    ]


def _peer_id(address: str) -> str:
    return address.rpartition("/p2p/")[2]
