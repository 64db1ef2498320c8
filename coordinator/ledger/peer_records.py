"""The records that peers signed: their addresses for newcomers, and their reports for the ledger."""

import logging
import random
from collections.abc import Iterable
from typing import TypeAlias

from hivemind.dht import DHT
from hivemind.p2p import PeerID

from coordinator.ledger.ingest import SessionReport
from swarm.access.gate import Gate
from swarm.access.passes import PassRefused
from swarm.countries import COUNTRIES
from swarm.dht.multiaddrs import is_loopback, leads_to
from swarm.dht.records import SessionRecord, is_present, read_sessions

logger = logging.getLogger(__name__)

AdmittedRecord: TypeAlias = tuple[PeerID, str, SessionRecord]  # its signer, and the user in its pass

REPORTED = (SessionRecord.__fields__.keys() & SessionReport.__dataclass_fields__.keys()) - {"country"}  # as they are
MOST_ADDRESSES = 7  # of other peers that a newcomer gets, beside the coordinator's


def other_ways_in(dht: DHT, run_name: str, gate: Gate, *, loopback: bool) -> list[str]:
    """Addresses of some peers that accept connections, so that newcomers do not depend on the coordinator alone.

    Args:
        loopback: include addresses that are reachable from this machine only, for a run that is all on it.
    """
    return reachable(admitted(read_sessions(dht, run_name), gate), loopback=loopback)


def reachable(records: Iterable[AdmittedRecord], *, loopback: bool) -> list[str]:
    """Addresses of some of these peers, as `other_ways_in`."""
    found = [
        address
        for signer, _, record in records
        if is_present(record) and not record.client_mode
        for address in record.addresses[:1]
        if leads_to(address, signer) and (loopback or not is_loopback(address))
    ]
    return random.sample(found, min(len(found), MOST_ADDRESSES))


def admitted(records: Iterable[tuple[PeerID, SessionRecord]], gate: Gate) -> list[AdmittedRecord]:
    """The records with the users that their passes name; those without a valid pass are left out."""
    found = []
    for signer, record in records:
        try:
            user = gate.admit(signer, record.shown_pass).user
        except PassRefused as error:
            logger.info("a session record of %s was ignored: %s", signer, error)
        else:
            found.append((signer, user, record))
    return found


def session_reports(records: Iterable[AdmittedRecord]) -> list[SessionReport]:
    """Signed records as reports for the ledger; the peer id is that of the signature, not a claim."""
    return [
        SessionReport(
            user=user,
            peer_id=str(signer),
            country=record.country if record.country in COUNTRIES else None,
            last_seen=record.time,
            **record.dict(include=REPORTED),
        )
        for signer, user, record in records
    ]
