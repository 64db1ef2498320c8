"""Records that peers sign and publish in the DHT, and the validators that reject all others.

Each session keeps one record of itself under its own public key. Records may be lost, repeated and read any number of
times: what a session contributed is in the headers of the log.
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias, TypeVar

from hivemind.dht import DHT
from hivemind.dht.crypto import RSASignatureValidator
from hivemind.dht.schema import BytesWithPublicKey, SchemaValidator
from hivemind.dht.validation import RecordValidatorBase
from hivemind.p2p import PeerID
from hivemind.utils import ValueWithExpiration, get_logger
from pydantic.v1 import (
    BaseModel,
    StrictBool,
    StrictFloat,
    ValidationError,
    conbytes,
    confloat,
    conint,
    conlist,
    constr,
)

from swarm import clock
from swarm.access.gate import Gate
from swarm.dht.passes_in_dht import LONGEST_LIFE, PassValidator
from swarm.identity import Identity, peer_id_of

logger = get_logger(__name__)

RECORD_LIFETIME = LONGEST_LIFE - 10.0  # seconds
CONTACT_LIFETIME = 60.0  # seconds for which a session is listed after its last record
PAUSES = ("paused", "battery", "metered line", "traffic", "hours")
PRESENT_SECONDS = 120.0  # a peer that has been silent for longer is gone

MOST_HOSTS_TOLD = 128  # in one record
LARGEST_COUNT = 2**40

R = TypeVar("R", bound=BaseModel)


ShortAddresses: TypeAlias = conlist(constr(max_length=80, strict=True), max_items=2)  # type: ignore[valid-type]


class ServedTokens(BaseModel):
    """How many tokens the experts of one host have served a session since it began."""

    host: constr(regex=r"^[1-9A-HJ-NP-Za-km-z]{40,64}$", max_length=64, strict=True)  # type: ignore[valid-type]
    tokens: conint(gt=0, le=LARGEST_COUNT, strict=True)  # type: ignore[valid-type]


class SessionRecord(BaseModel):
    """What a session, one process of one user, says about itself."""

    session_id: constr(regex=r"^[0-9a-f]{32}$", strict=True)  # type: ignore[valid-type]
    shown_pass: conbytes(max_length=256, strict=True)  # type: ignore[valid-type]  # names the user
    device: constr(max_length=80, strict=True)  # type: ignore[valid-type]
    country: constr(  # type: ignore[valid-type]  # in ISO 3166, empty where the person did not say
        regex=r"^([A-Z]{2})?$", max_length=2, strict=True
    )
    client_mode: StrictBool
    addresses: conlist(  # type: ignore[valid-type]  # multiaddrs by which others may join, with this peer's id
        constr(max_length=200, strict=True), max_items=4
    )
    started: StrictFloat  # unix time, seconds
    time: StrictFloat  # unix time of this record, seconds
    step: conint(ge=0, strict=True)  # type: ignore[valid-type]
    samples_per_second: confloat(ge=0.0, strict=True)  # type: ignore[valid-type]
    averaging_rounds: conint(ge=0, strict=True)  # type: ignore[valid-type]
    averaging_failures: conint(ge=0, strict=True)  # type: ignore[valid-type]
    data_wait_fraction: confloat(ge=0.0, le=1.0, strict=True)  # type: ignore[valid-type]
    pause: constr(  # type: ignore[valid-type]  # why it computes nothing now, as its person wishes; empty if it does
        regex=rf"^({'|'.join(PAUSES)})?\Z", max_length=20, strict=True
    )
    left: StrictBool
    hosts_experts: StrictBool = False  # and trains nothing
    served: conlist(ServedTokens, max_items=MOST_HOSTS_TOLD) = []  # type: ignore[valid-type]  # of a trainer


class ContactRecord(BaseModel):
    """A session that takes part in the log of the run, and whether it accepts connections."""

    session: constr(  # type: ignore[valid-type]  # peer id, and a random number
        regex=r"^[1-9A-HJ-NP-Za-km-z]{40,64}\.[0-9a-f]{8}$", max_length=80, strict=True
    )
    shown_pass: conbytes(max_length=256, strict=True)  # type: ignore[valid-type]  # names the user
    reachable: StrictBool
    is_coordinator: StrictBool
    left: StrictBool
    proof: conbytes(max_length=1200, strict=True) = b""  # type: ignore[valid-type]  # that others pass on
    seen: ShortAddresses = []  # multiaddrs at which others see a peer behind a router
    home: ShortAddresses = []  # and those in its own network


class RunSchema(BaseModel):
    """The keys of records: one for each kind, with a record for each public key."""

    sessions: dict[BytesWithPublicKey, SessionRecord]
    contacts: dict[BytesWithPublicKey, ContactRecord]


def validators(run_name: str, identity: Identity, gate: Gate) -> list[RecordValidatorBase]:
    """What a peer of this run checks on every record of the DHT, and signs its own with."""
    return [SchemaValidator(RunSchema, prefix=run_name), PassValidator(gate, identity)]


def publish(dht: DHT, run_name: str, identity: Identity, record: SessionRecord, *, wait: float = 0.0) -> None:
    """Store the session's record; wait up to `wait` seconds for it to reach other peers."""
    expires = clock.now() + RECORD_LIFETIME  # the same for all, or a new record might not replace the last one
    future = dht.store(f"{run_name}_sessions", record.dict(), expires, subkey=identity.subkey, return_future=True)
    if wait:
        try:
            future.result(timeout=wait)
        except Exception as error:  # leaving must not fail because no peer is left
            logger.debug(f"the last record was not stored: {error!r}")


def read_sessions(dht: DHT, run_name: str, timeout: float = 10.0) -> list[tuple[PeerID, SessionRecord]]:
    """All session records that the DHT holds now, with the peers that signed them."""
    try:
        found = entries(dht, f"{run_name}_sessions", timeout)
    except Exception as error:
        logger.debug(f"session records could not be read: {error!r}")
        return []
    return [(peer_id, record) for peer_id, record, _ in _parsed(found, SessionRecord)]


def store_contact(dht: DHT, run_name: str, identity: Identity, record: ContactRecord, timeout: float = 10.0) -> bool:
    """Store the record of a session; returns whether it worked within `timeout` seconds."""
    expires = clock.now() + CONTACT_LIFETIME
    future = dht.store(f"{run_name}_contacts", record.dict(), expires, subkey=identity.subkey, return_future=True)
    return bool(future.result(timeout))


def read_contacts(dht: DHT, run_name: str, timeout: float = 10.0) -> list[tuple[PeerID, ContactRecord, float]]:
    """All contact records that the DHT holds now, with the peers that signed them and the times when they expire."""
    return list(_parsed(entries(dht, f"{run_name}_contacts", timeout), ContactRecord))


def entries(dht: DHT, key: str, timeout: float) -> dict[bytes, ValueWithExpiration]:
    """What the DHT holds under a key now, by subkey; empty if no peer has anything, or none answers.

    Raises:
        concurrent.futures.TimeoutError: our own node does not answer.
    """
    found = dht.get(key, latest=True, return_future=True).result(timeout)
    return found.value if isinstance(found, ValueWithExpiration) and isinstance(found.value, dict) else {}


def is_present(record: SessionRecord) -> bool:
    """Whether the session reported lately and has not left."""
    return not record.left and record.time > clock.now() - PRESENT_SECONDS


def _parsed(found: Mapping[bytes, ValueWithExpiration], kind: type[R]) -> Iterator[tuple[PeerID, R, float]]:
    """Records with their signers and the times when they expire; what does not parse is left out."""
    for subkey, value in found.items():
        try:
            yield signer(subkey), kind.parse_obj(value.value), float(value.expiration_time)
        except (ValidationError, ValueError) as error:
            logger.debug(f"ignored a malformed {kind.__name__}: {error!r}")


def signer(subkey: bytes) -> PeerID:
    """The libp2p peer id that belongs to the public key in a DHT subkey.

    Raises:
        ValueError: the subkey holds no RSA public key.
    """
    found = RSASignatureValidator._PUBLIC_KEY_RE.search(subkey)
    if found is None:
        raise ValueError("no public key in the subkey")
    return peer_id_of(found.group(1))
