"""Passes: the run's authority signs which peer belongs to which person, and until when.

The authority is an Ed25519 key that only the organizer has. It signs user, expiry, the run's name and the peer's id. A
libp2p peer id is the hash of the peer's public key, so a pass is of use only to the holder of that key.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hivemind.p2p import PeerID
from hivemind.utils import MSGPackSerializer

from swarm import clock
from swarm.access.user_names import UNVERIFIED
from swarm.errors import SwarmError
from swarm.files import write_file

LONGEST_NAME = 64  # characters
LONGEST = 512  # bytes of a pass; a name's characters take up to four
SEAL = "sahaj pass 1"  # what a signature is for: no other text of ours can be mistaken for a pass


def is_verified(user: str) -> bool:
    """Whether the Hub says that this is the person."""
    return not user.startswith(UNVERIFIED)


class PassRefused(SwarmError):
    """A pass is missing, forged, expired or another peer's, or its owner is banned."""


@dataclass(frozen=True)
class Pass:
    """`user` is a Hub name, or a self-chosen one behind `UNVERIFIED`."""

    user: str
    expires: float  # unix time, seconds
    signature: bytes  # of the authority

    @property
    def verified(self) -> bool:
        """Whether the Hub says that this is the person."""
        return is_verified(self.user)

    def to_bytes(self) -> bytes:
        """For the wire; some 100 bytes."""
        return bytes(MSGPackSerializer.dumps([self.user, self.expires, self.signature]))


def read_pass(shown: bytes) -> Pass:
    """A pass from the wire, not checked yet.

    Raises:
        PassRefused: it is none.
    """
    try:
        if len(shown) > LONGEST:
            raise ValueError("too long")
        user, expires, signature = MSGPackSerializer.loads(shown)
    except Exception:
        raise PassRefused("no pass was shown") from None
    well_formed = isinstance(user, str) and isinstance(expires, float) and isinstance(signature, bytes)
    if not well_formed or not 0 < len(user) <= LONGEST_NAME:
        raise PassRefused("the pass is malformed")
    return Pass(user, expires, signature)


def check_pass(shown: Pass, authority: bytes, run_name: str, peer_id: PeerID, now: float | None = None) -> None:
    """Check that the authority gave this pass to this peer, for this run, and that it has not expired at `now`.

    Args:
        authority: the authority's public key, 32 bytes.
        now: unix time in seconds; the clock's if absent.

    Raises:
        PassRefused: it did not, or it has.
    """
    try:
        check_signature(authority, _signed(run_name, shown.user, peer_id, shown.expires), shown.signature)
    except InvalidSignature:
        raise PassRefused(f"the pass of {shown.user} was not given to this peer by the run's authority") from None
    if shown.expires <= (clock.now() if now is None else now):
        raise PassRefused(f"the pass of {shown.user} has expired")


class Authority:
    """The key that passes and notices of a run are signed with; its holder controls the run."""

    def __init__(self, key: Ed25519PrivateKey):
        self._key = key

    @property
    def public_key(self) -> bytes:
        """What others check with, 32 bytes."""
        return self._key.public_key().public_bytes_raw()

    def issue(self, run_name: str, user: str, peer_id: PeerID, lifetime: float) -> Pass:
        """A pass for `lifetime` seconds from now."""
        expires = clock.now() + lifetime
        return Pass(user, expires, self.sign(_signed(run_name, user, peer_id, expires)))

    def sign(self, content: bytes) -> bytes:
        """A signature over bytes that say what they are for."""
        return self._key.sign(content)


def load_authority(path: Path) -> Authority:
    """Read the key file, or make a new one.

    Raises:
        SwarmError: the file is no such key.
    """
    if not path.exists():
        write_file(path, Ed25519PrivateKey.generate().private_bytes_raw(), mode=0o600)
    try:
        return Authority(Ed25519PrivateKey.from_private_bytes(path.read_bytes()))
    except (OSError, ValueError):
        raise SwarmError(
            f"{path}: not an authority's key; bring back the file, or remove it to let everybody join anew"
        ) from None


@lru_cache(maxsize=1024)  # the passes of those who call; a call that raises is not remembered
def check_signature(authority: bytes, signed: bytes, signature: bytes) -> None:
    """Check that the authority signed this.

    Raises:
        InvalidSignature: it did not.
    """
    Ed25519PublicKey.from_public_bytes(authority).verify(signature, signed)


def _signed(run_name: str, user: str, peer_id: PeerID, expires: float) -> bytes:
    return bytes(MSGPackSerializer.dumps([SEAL, run_name, user, peer_id.to_bytes(), expires]))
