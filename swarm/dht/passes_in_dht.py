"""Passes in the DHT: in each call between nodes and its answer, and in each record with the signature of its author.

Records are passed on by others, and are checked by every peer that stores or reads them, without asking anybody. A
record that was good when it was written stays good until it expires, or it would spoil every answer in which it stands:
whether the pass of its author is still valid, and not banned, is checked when the author calls.
"""

import base64
import dataclasses
import math
import re
from functools import lru_cache

from hivemind.dht.crypto import RSASignatureValidator
from hivemind.dht.routing import DHTID
from hivemind.dht.validation import DHTRecord
from hivemind.p2p import PeerID
from hivemind.utils import MSGPackSerializer, get_logger
from hivemind.utils.auth import AuthorizedRequestBase, AuthorizedResponseBase, AuthorizerBase
from hivemind.utils.crypto import RSAPublicKey

from swarm import clock
from swarm.access.gate import Gate
from swarm.access.notices import LONGEST as NOTICES
from swarm.access.notices import notices_key
from swarm.access.passes import PassRefused, check_pass, read_pass
from swarm.access.refusals import caller, count_refusal
from swarm.access.user_names import COORDINATOR
from swarm.identity import Identity, peer_id_of

logger = get_logger(__name__)

LONGEST_LIFE = 300.0  # seconds until a record expires, at most; session records take most of it
LONGEST_VALUE = 32 * 1024  # bytes of a record with its seal; ours take 5 kB, and up to 25 with the coordinator away
LONGEST_NOTICES = NOTICES + 4096  # bytes of a record of the authority's notices
LONGEST_SUBKEY = 1024  # bytes; a public key takes some 400
NEVER_EXPIRED = 0.0  # unix time at which no pass has expired


class PassAuthorizer(AuthorizerBase):
    """Shows our pass with each call and each answer, and checks the pass of the other peer.

    hivemind's own authorizers (its issue 253) sign each message with RSA as well, which takes a trainer more than one
    percent of a core. libp2p has already authenticated the other peer and encrypts what is sent: what is left to check
    is whether the pass was given to that very peer. Streams of the log check the same.
    """

    def __init__(self, gate: Gate, called: PeerID | None = None):
        self._gate, self._called = gate, called

    def toward(self, peer: PeerID) -> "PassAuthorizer":
        """For calls of this peer."""
        return PassAuthorizer(self._gate, peer)

    async def sign_request(self, request: AuthorizedRequestBase, service_public_key: RSAPublicKey | None) -> None:
        """See upstream."""
        request.auth.client_access_token.signature = self._gate.own.to_bytes()

    async def validate_request(self, request: AuthorizedRequestBase) -> bool:
        """See upstream."""
        admitted = self._admits(caller(), request.auth.client_access_token.signature)
        if not admitted:
            count_refusal()
        return admitted

    async def sign_response(self, response: AuthorizedResponseBase, request: AuthorizedRequestBase) -> None:
        """See upstream."""
        response.auth.service_access_token.signature = self._gate.own.to_bytes()

    async def validate_response(self, response: AuthorizedResponseBase, request: AuthorizedRequestBase) -> bool:
        """See upstream."""
        return self._admits(self._called, response.auth.service_access_token.signature)

    def _admits(self, peer_id: PeerID | None, shown: bytes) -> bool:
        if peer_id is None:
            return False
        try:
            self._gate.admit(peer_id, shown)
        except PassRefused as error:
            logger.debug(f"{peer_id} was refused: {error}")
            return False
        return True


class PassValidator(RSASignatureValidator):
    """Signs our records and checks all. A subkey is the author's if it is their public key."""

    _SEALED = re.compile(rb"\[author:([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)\]\Z")

    def __init__(self, gate: Gate, identity: Identity):
        super().__init__(identity.private_key)
        self._gate = gate
        self._notices = DHTID.generate(source=notices_key(gate.run_name)).to_bytes()
        self._key_bytes = identity.private_key.get_public_key().to_bytes()

    def sign_value(self, record: DHTRecord) -> bytes:
        """The value, followed by our public key, pass and signature."""
        credentials = MSGPackSerializer.dumps([self._key_bytes, self._gate.own.to_bytes()])
        signature = self._private_key.sign(self._serialize_record(record) + credentials)
        return bytes(record.value) + b"[author:" + base64.b64encode(credentials) + b":" + signature + b"]"

    def validate(self, record: DHTRecord) -> bool:
        """Whether author, pass and signature fit the record."""
        try:
            self._check(record)
        except (PassRefused, ValueError, TypeError) as error:
            logger.debug(f"a record was refused: {error}")
            return False
        return True

    def strip_value(self, record: DHTRecord) -> bytes:
        """The value alone."""
        return self._SEALED.sub(b"", record.value)

    def _check(self, record: DHTRecord) -> None:
        longest = LONGEST_NOTICES if record.key == self._notices else LONGEST_VALUE
        if len(record.value) > longest or len(record.subkey) > LONGEST_SUBKEY:
            raise PassRefused(f"a record of {len(record.value):,} bytes is too long")
        sealed = self._SEALED.search(record.value)
        if sealed is None:
            raise PassRefused("a record without an author")
        credentials, signature = base64.b64decode(sealed.group(1)), sealed.group(2)
        key_bytes, shown = MSGPackSerializer.loads(credentials)
        peer_id = peer_id_of(key_bytes)
        bare = dataclasses.replace(record, value=self.strip_value(record))
        _check_signature(key_bytes, self._serialize_record(bare) + credentials, signature)
        its = read_pass(shown)
        check_pass(its, self._gate.authority, self._gate.run_name, peer_id, NEVER_EXPIRED)
        if not math.isfinite(record.expiration_time) or record.expiration_time > clock.now() + LONGEST_LIFE:
            raise PassRefused(f"{peer_id} wrote a record that would stay for too long")
        if record.key == self._notices and its.user != COORDINATOR:  # others' would fill the answers to all peers
            raise PassRefused(f"{peer_id} wrote notices, and is not the coordinator")
        # to the byte: with more than one subkey, one author would count as several
        if MSGPackSerializer.loads(record.subkey) != self.PUBLIC_KEY_FORMAT.replace(b"_key_", key_bytes):
            raise PassRefused(f"{peer_id} wrote under somebody else's subkey")


@lru_cache(maxsize=2048)  # each peer that is asked answers with the same records; one that raises is not remembered
def _check_signature(key_bytes: bytes, signed: bytes, signature: bytes) -> None:
    if not RSAPublicKey.from_bytes(key_bytes).verify(signed, signature):
        raise PassRefused(f"{peer_id_of(key_bytes)} did not sign this record")
