"""Signatures: of sessions with their peers' keys, and of the run's authority.

A session is named after its peer id, which is the hash of the peer's public key; so a signature that comes with the key
can be checked by anybody. One takes 0.25 ms to make, 0.03 ms to check, and 542 bytes.
"""

import base64
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hivemind.p2p import PeerID
from hivemind.utils.crypto import RSAPublicKey
from msgspec.structs import replace

from averaging.log.header import peer_of
from averaging.log.packing import pack, unpack
from averaging.protocol import credentials as signed
from averaging.protocol.messages import Contact
from swarm.access.gate import Gate
from swarm.access.passes import Authority, PassRefused, check_pass, read_pass
from swarm.access.user_names import COORDINATOR
from swarm.identity import Identity, peer_id_of

_ALGORITHM = b"ssh-rsa "  # before the key in hivemind's form
_TWO = tuple[bytes, bytes]  # of a contact: its pass and signature; of a signature: the public key, and what it made
_WHENEVER = 0.0  # unix time at which no pass has expired: what is true of a session stays true


class PassCredentials:
    """The credentials of one peer.

    Args:
        authority: only the coordinator has it.
    """

    def __init__(self, identity: Identity, gate: Gate, authority: Authority | None = None):
        self._key, self._gate, self._authority = identity.private_key, gate, authority
        self._public = base64.b64decode(self._key.get_public_key().to_bytes().removeprefix(_ALGORITHM))

    def introduced(self, contact: Contact) -> Contact:
        """One of our sessions, with what makes others believe it."""
        signature = self.sign(signed.contact(contact))
        return replace(contact, proof=pack([self._gate.own.to_bytes(), signature]))

    def sign(self, content: bytes) -> bytes:
        """Public key and signature; see `averaging.protocol.credentials`."""
        return pack([self._public, base64.b64decode(self._key.sign(content))])

    def verify(self, session: str, content: bytes, signature: bytes) -> bool:
        """Whether the peer of a session has signed this."""
        return is_signed(session, content, signature)

    def authorize(self, content: bytes) -> bytes:
        """As the run's authority; empty where its key is not."""
        return self._authority.sign(content) if self._authority is not None else b""

    def is_authorized(self, content: bytes, signature: bytes) -> bool:
        """Whether the run's authority has signed this."""
        try:
            Ed25519PublicKey.from_public_bytes(self._gate.authority).verify(signature, content)
        except InvalidSignature:
            return False
        return True

    def admits(self, contact: Contact) -> bool:
        """Whether a contact is what its session and its pass say."""
        return is_admitted(contact, self._gate.authority, self._gate.run_name)


@lru_cache(maxsize=4096)  # those that the DHT lists are read again and again
def is_admitted(contact: Contact, authority: bytes, run_name: str) -> bool:
    """Whether a contact is signed by its session, and is what the pass with it says; the pass may have expired."""
    try:
        shown, signature = unpack(_TWO, contact.proof)
        its, peer_id = read_pass(shown), PeerID.from_base58(peer_of(contact.session))
        check_pass(its, authority, run_name, peer_id, _WHENEVER)
    except (ValueError, PassRefused):
        return False
    is_its = its.user == contact.user and (its.user == COORDINATOR or not contact.is_coordinator)
    return is_its and is_signed(contact.session, signed.contact(contact), signature)


def is_signed(session: str, content: bytes, signature: bytes) -> bool:
    """Whether the peer of a session has signed this."""
    try:
        key, made = unpack(_TWO, signature)
        public, peer_id = _public_key(key)
    except ValueError:
        return False
    return peer_id == peer_of(session) and public.verify(content, base64.b64encode(made))


@lru_cache(maxsize=1024)  # a call that raises is not remembered
def _public_key(key: bytes) -> tuple[RSAPublicKey, str]:
    """With the peer id that belongs to it, in base58; ValueError: it is none."""
    written = _ALGORITHM + base64.b64encode(key)
    return RSAPublicKey.from_bytes(written), peer_id_of(written).to_base58()
