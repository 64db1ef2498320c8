"""The record that each host keeps in the DHT under its own public key."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hivemind.dht import DHT
from hivemind.dht.schema import BytesWithPublicKey, SchemaValidator
from hivemind.p2p import PeerID
from hivemind.utils import ValueWithExpiration, get_logger
from pydantic.v1 import BaseModel, StrictBool, ValidationError, conbytes, confloat, conint, conlist, constr

from experts.directory.assignment import Holdings
from experts.grid import Grid, Uid, is_inside
from swarm import clock
from swarm.access.gate import Gate
from swarm.access.passes import PassRefused
from swarm.dht.records import entries, signer
from swarm.identity import Identity

logger = get_logger(__name__)

LIFETIME = 30.0  # seconds for which a host is listed after its last record
MOST_EXPERTS = 512  # of one host, in each list: a record has at most 32 kB
LARGEST_VERSION = 2**53


class NoAnswer(Exception):
    """No peer of the DHT answered, or none has heard of a host yet."""


class HeldExpert(BaseModel):
    """An expert and its version."""

    uid: conlist(conint(ge=0, lt=2**31, strict=True), min_items=1, max_items=4)  # type: ignore[valid-type]
    version: conint(ge=0, le=LARGEST_VERSION, strict=True)  # type: ignore[valid-type]


class HostRecord(BaseModel):
    """What a host says about itself."""

    settings: constr(regex=r"^[0-9a-f]{16}$", strict=True)  # type: ignore[valid-type]  # their fingerprint
    shown_pass: conbytes(max_length=256, strict=True)  # type: ignore[valid-type]  # names the user
    serves: conlist(HeldExpert, max_items=MOST_EXPERTS)  # type: ignore[valid-type]
    copies: conlist(HeldExpert, max_items=MOST_EXPERTS)  # type: ignore[valid-type]
    load: confloat(ge=0.0, le=1e6, strict=True)  # type: ignore[valid-type]  # seconds of work that wait
    leaves: StrictBool  # it computes no more


class HostSchema(BaseModel):
    """The key of the records."""

    expert_hosts: dict[BytesWithPublicKey, HostRecord]


@dataclass(frozen=True)
class Listed:
    """A host that the DHT lists now."""

    peer_id: PeerID
    user: str  # as its pass says
    holdings: Holdings
    load: float  # seconds of work that wait
    expires: float  # when its record does, in Unix time


class Directory:
    """Reads and writes the records of hosts. All methods wait for the DHT: not for an event loop.

    A record counts until it expires, even if a later answer lacks it: each answer comes from a few peers of the DHT,
    and a host that leaves in order stores an empty record.

    Args:
        gate: checks passes and has ours.
        settings: fingerprint of the experts' settings; hosts with others are not listed.
    """

    def __init__(self, dht: DHT, run_name: str, gate: Gate, grid: Grid, settings: str):
        self._dht, self._key, self._gate = dht, f"{run_name}_expert_hosts", gate
        self._grid, self._settings = grid, settings
        self._records: dict[bytes, ValueWithExpiration[Any]] = {}  # of all answers
        dht.add_validators([SchemaValidator(HostSchema, prefix=run_name)])

    def store(self, identity: Identity, holdings: Holdings, load: float, timeout: float = 10.0) -> bool:
        """Have our host listed for the next while; whether that could be stored."""
        record = HostRecord(
            settings=self._settings,
            shown_pass=self._gate.own.to_bytes(),
            serves=_held(holdings.serves),
            copies=_held(holdings.copies),
            load=min(float(load), 1e6),
            leaves=holdings.leaves,
        )
        stored = self._dht.store(
            self._key, record.dict(), clock.now() + LIFETIME, subkey=identity.subkey, return_future=True
        )
        return bool(stored.result(timeout))

    def read(self, timeout: float = 10.0) -> list[Listed]:
        """The hosts that are listed now.

        Raises:
            NoAnswer: nobody answered, or nobody has heard of a host yet.
            concurrent.futures.TimeoutError: our own peer of the DHT does not answer.
        """
        found = entries(self._dht, self._key, timeout)
        if not found:
            raise NoAnswer("the DHT knows no hosts of experts")
        now = clock.now()
        records = dict(self._records)
        for subkey, one in found.items():
            records[subkey] = max(one, records.get(subkey, one), key=lambda record: record.expiration_time)
        self._records = {subkey: one for subkey, one in records.items() if one.expiration_time > now}
        listed = [self._listed(subkey, one) for subkey, one in self._records.items()]
        return [host for host in listed if host is not None]

    def _listed(self, subkey: bytes, one: ValueWithExpiration[Any]) -> Listed | None:
        try:
            peer_id, record = signer(subkey), HostRecord.parse_obj(one.value)
            if one.expiration_time > clock.now() + LIFETIME + clock.SLACK:
                raise ValueError(f"a record that expires {one.expiration_time - clock.now():.0f} s from now")
            if record.settings != self._settings:
                raise ValueError("a host of experts with other settings")
            user = self._gate.admit(peer_id, record.shown_pass).user
            serves, copies = self._versions(record.serves), self._versions(record.copies)
            holdings = Holdings(peer_id.to_base58(), serves, copies, record.leaves)
        except (ValidationError, ValueError, PassRefused) as error:
            logger.debug(f"a host is not listed: {error}")
            return None
        return Listed(peer_id, user, holdings, record.load, one.expiration_time)

    def _versions(self, held: list[HeldExpert]) -> dict[Uid, int]:
        return {uid: one.version for one in held if is_inside(uid := tuple(one.uid), self._grid)}


def _held(versions: Mapping[Uid, int]) -> list[HeldExpert]:
    held = list(versions.items())[:MOST_EXPERTS]
    return [HeldExpert(uid=list(uid), version=min(version, LARGEST_VERSION)) for uid, version in held]
