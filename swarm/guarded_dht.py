"""A guarded DHT: calls between nodes carry passes, and so does every record.

Calls follow hivemind's own protocol of signed requests (its issue 253), and come from the libp2p peer that the
pass was given to, which hivemind does not ask. Records are checked by
whoever stores or reads them, without asking anybody: the value carries the pass of its author, and the
author's signature. A record that was good when it was written stays good until it expires, or it would spoil
every answer in which it stands: whether its author's pass is still valid, and not banned, is asked when he calls.
"""

import base64
import dataclasses
import math
import re
from functools import lru_cache
from typing import Protocol

from hivemind.dht.crypto import RSASignatureValidator
from hivemind.dht.protocol import DHTProtocol
from hivemind.dht.routing import DHTID
from hivemind.dht.validation import DHTRecord
from hivemind.p2p import P2PContext, PeerID
from hivemind.proto import dht_pb2
from hivemind.proto.auth_pb2 import AccessToken, RequestAuthInfo
from hivemind.utils import MSGPackSerializer, get_dht_time, get_logger
from hivemind.utils.auth import AuthorizedRequestBase, TokenAuthorizerBase
from hivemind.utils.crypto import RSAPublicKey

from swarm.gate import Gate
from swarm.identity import Identity, peer_id_of
from swarm.notices import LONGEST as NOTICES
from swarm.notices import notices_key
from swarm.passes import PassRefused, check_pass, read_pass
from swarm.shut_out import note_refusal

logger = get_logger(__name__)

LONGEST_LIFE = 300.0  # seconds to come after which no record may expire; ours live at most two minutes
LONGEST_VALUE = 16 * 1024  # bytes of a record with its seal; ours take up to 5 kB
LONGEST_NOTICES = NOTICES + 4096  # bytes of a record of the authority's notices
LONGEST_SUBKEY = 1024  # bytes; a public key takes some 400
MOST_KEYS = 64  # in one call; an answer holds all that is known under each
WHENEVER = 0.0  # unix time at which no pass has expired


class PassAuthorizer(TokenAuthorizerBase):
    """Shows our pass with each call of the DHT, and refuses calls without a good one."""

    def __init__(self, gate: Gate, identity: Identity):
        super().__init__(identity.private_key)
        self._gate = gate
        self._public_key = identity.private_key.get_public_key().to_bytes()

    async def get_token(self) -> AccessToken:
        """Our newest pass, as hivemind carries it."""
        own = self._gate.own
        return AccessToken(username=own.user, public_key=self._public_key, signature=own.to_bytes())

    async def validate_request(self, request: AuthorizedRequestBase) -> bool:
        """See upstream."""
        valid = bool(await super().validate_request(request))
        if not valid:
            note_refusal()
        return valid

    def is_token_valid(self, access_token: AccessToken) -> bool:
        """See upstream; hivemind has checked that the caller holds the private key."""
        try:
            self._gate.admit(peer_id_of(access_token.public_key), access_token.signature)
        except (PassRefused, ValueError) as error:
            logger.debug(f"a call was refused: {error}")
            return False
        return True

    def does_token_need_refreshing(self, access_token: AccessToken) -> bool:
        """Whether a newer pass of ours has arrived."""
        return bool(access_token.signature != self._gate.own.to_bytes())


class _Request(Protocol):
    """The part of a call that hivemind has checked by the time it arrives here."""

    auth: RequestAuthInfo


class GuardedProtocol(DHTProtocol):
    """hivemind's calls between nodes, for the peer that the pass was given to and no other."""

    async def rpc_ping(self, request: dht_pb2.PingRequest, context: P2PContext) -> dht_pb2.PingResponse:
        """See upstream."""
        _check_caller(request, context)
        return await super().rpc_ping(request, context)

    async def rpc_store(self, request: dht_pb2.StoreRequest, context: P2PContext) -> dht_pb2.StoreResponse:
        """See upstream."""
        _check_caller(request, context)
        if len(request.keys) > MOST_KEYS:  # others may have stored them at an honest peer that passes them on
            return dht_pb2.StoreResponse(store_ok=[False] * len(request.keys), peer=self.node_info)
        return await super().rpc_store(request, context)

    async def rpc_find(self, request: dht_pb2.FindRequest, context: P2PContext) -> dht_pb2.FindResponse:
        """See upstream."""
        _check_caller(request, context)
        if len(request.keys) > MOST_KEYS:
            note_refusal()
            raise PassRefused(f"a call with {len(request.keys):,} keys; at most {MOST_KEYS} can be asked for at once")
        return await super().rpc_find(request, context)


class PassValidator(RSASignatureValidator):
    """Every record is signed by its author, who shows a pass; each author writes under a subkey of his own.

    A subkey is the author's if it holds his public key, as hivemind's protected records do, or is his
    peer id, as in hivemind's matchmaking, which stores those unsigned.
    """

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
        check_pass(read_pass(shown), self._gate.authority, self._gate.run_name, peer_id, WHENEVER)
        if not math.isfinite(record.expiration_time) or record.expiration_time > get_dht_time() + LONGEST_LIFE:
            raise PassRefused(f"{peer_id} wrote a record that would stay for too long")
        if not _is_his(record.subkey, key_bytes, peer_id):
            raise PassRefused(f"{peer_id} wrote under somebody else's subkey")


@lru_cache(maxsize=256)  # each peer that is asked answers with the same records; one that raises is not remembered
def _check_signature(key_bytes: bytes, signed: bytes, signature: bytes) -> None:
    if not RSAPublicKey.from_bytes(key_bytes).verify(signed, signature):
        raise PassRefused(f"{peer_id_of(key_bytes)} did not sign this record")


def _is_his(subkey: bytes, key_bytes: bytes, peer_id: PeerID) -> bool:
    """There are two subkeys that are his, to the byte: with more he would have as many voices."""
    owned = RSASignatureValidator.PUBLIC_KEY_FORMAT.replace(b"_key_", key_bytes)
    return MSGPackSerializer.loads(subkey) in (owned, peer_id.to_bytes())


def _check_caller(request: _Request, context: P2PContext) -> None:
    """hivemind has checked pass and signature; within upstream's own node a call carries neither."""
    public_key = request.auth.client_access_token.public_key
    if public_key and peer_id_of(public_key) != context.remote_id:
        note_refusal()
        raise PassRefused(f"{context.remote_id} showed the pass of another peer")
