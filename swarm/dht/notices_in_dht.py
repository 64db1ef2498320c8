"""Spreads notices through the DHT: the coordinator stores them, and every peer looks for newer ones."""

from hivemind.dht import DHT
from hivemind.utils import get_logger

from swarm import clock
from swarm.access.gate import Gate
from swarm.access.notices import notices_key
from swarm.dht.records import entries
from swarm.identity import Identity

logger = get_logger(__name__)

LOOK_EVERY = 15.0  # seconds; a ban has to reach everybody within a minute
LIFETIME = 120.0  # seconds until notices expire, unless the coordinator stores them again
ANSWER_TIMEOUT = 10.0  # seconds


def publish_notices(dht: DHT, gate: Gate, identity: Identity, signed: bytes) -> None:
    """Put the newest notices where every peer finds them, and use them here; returns at once.

    Raises:
        StorageError: they are published, and could not be written for the processes of this peer.
    """
    dht.store(
        key=notices_key(gate.run_name),
        subkey=identity.subkey,
        value=signed,
        expiration_time=clock.now() + LIFETIME,
        return_future=True,
    )
    gate.take_notice(signed)


def look_for_notices(dht: DHT, gate: Gate) -> None:
    """Use what is newer than what we know, and signed by the authority."""
    for entry in entries(dht, notices_key(gate.run_name), ANSWER_TIMEOUT).values():
        try:
            gate.take_notice(entry.value)
        except Exception as error:  # the next one may be good
            logger.debug(f"notices were ignored: {error!r}")
