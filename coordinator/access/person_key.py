"""Personal keys: by one, the HTTP service knows whose machines and team a request from a browser is about.

A key is signed by the run's authority and stored nowhere. A Hub user's is for all their machines. Anybody may choose
the same name, so the key of a self-chosen one is for the machine alone whose identity has asked for it.
"""

import base64
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from hivemind.utils import MSGPackSerializer

from swarm import clock
from swarm.access.passes import LONGEST_NAME, Authority, check_signature
from swarm.errors import SwarmError

SEAL = "sahaj personal key 1"  # what a signature is for: no other text of ours can be mistaken for a key
LIFETIME = 30 * 86400.0  # seconds
LONGEST = 600  # characters of a key


class KeyRefused(SwarmError):
    """Not a key of this run, or one that has expired."""


@dataclass(frozen=True)
class PersonalKey:
    """Whose it is: `user` as in passes, and the peer id of the only machine that it is for, or None for all of them."""

    user: str
    peer_id: str | None
    expires: float  # unix seconds

    @property
    def holder(self) -> str:
        """By which requests are counted."""
        return f"{self.user} {self.peer_id or ''}"

    @property
    def given(self) -> float:
        """When it was given, in unix seconds."""
        return self.expires - LIFETIME


def issue_key(
    authority: Authority, run_name: str, user: str, peer_id: str | None, *, good_from: float = 0.0
) -> tuple[str, PersonalKey]:
    """A key as text, and what it says; it is good for `LIFETIME` seconds from now.

    Args:
        good_from: unix seconds; keys of this holder that were given before are good no longer.
    """
    key = PersonalKey(user, peer_id, max(float(int(clock.now())), good_from) + LIFETIME)
    content = [key.user, key.peer_id, key.expires, authority.sign(_signed(run_name, key))]
    return base64.urlsafe_b64encode(MSGPackSerializer.dumps(content)).decode().rstrip("="), key


def read_key(shown: str, authority: bytes, run_name: str) -> PersonalKey:
    """What a key says.

    Args:
        shown: as `issue_key` wrote it.
        authority: the authority's public key, 32 bytes.

    Raises:
        KeyRefused: the authority did not sign it, or it has expired.
    """
    try:
        if len(shown) > LONGEST:
            raise ValueError("too long")
        content = base64.b64decode(shown + "=" * (-len(shown) % 4), altchars=b"-_", validate=True)
        user, peer_id, expires, signature = MSGPackSerializer.loads(content)
        if not (isinstance(user, str) and 0 < len(user) <= LONGEST_NAME and isinstance(expires, float)):
            raise ValueError("malformed")
        key = PersonalKey(user, peer_id, expires)
        check_signature(authority, _signed(run_name, key), signature)
    except InvalidSignature:
        raise KeyRefused("this is not a personal key of this run; get one with `sahaj me LINK`") from None
    except Exception:  # any text may come from anybody
        raise KeyRefused("this is not a personal key; get one with `sahaj me LINK`") from None
    if key.expires <= clock.now():
        raise KeyRefused("this personal key has expired; get a new one with `sahaj me LINK`")
    return key


def _signed(run_name: str, key: PersonalKey) -> bytes:
    return bytes(MSGPackSerializer.dumps([SEAL, run_name, key.user, key.peer_id, key.expires]))
