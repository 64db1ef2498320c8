"""Request and answer of `POST /api/me/key`, which gives a personal key."""

from hivemind.utils import MSGPackSerializer
from pydantic import Base64Bytes, Field

from swarm.access.join_messages import Message

SEAL = "sahaj asks for a personal key 1"
FRESH_FOR = 120.0  # seconds for which a signed request may be on its way, clocks that differ included


class KeyRequest(Message):
    """A machine of somebody with a self-chosen name asks; a Hub user shows a token instead, and sends no body."""

    public_key: Base64Bytes = Field(description="of the peer, in hivemind's form")
    time: float = Field(description="unix time, seconds")
    signature: Base64Bytes = Field(description="of the peer, over `to_sign`")


class HolderAnswer(Message):
    """The person whom the service takes the holder of a key for."""

    user: str = Field(description="as in passes")
    peer_id: str | None = Field(None, description="the only machine that the key is for; none: all of the user's")


class KeyAnswer(HolderAnswer):
    """A personal key."""

    key: str
    expires: float = Field(description="unix time, seconds", allow_inf_nan=False)


def to_sign(run_name: str, peer_id: str, time: float) -> bytes:
    """What a peer signs to ask for a key."""
    return bytes(MSGPackSerializer.dumps([SEAL, run_name, peer_id, time]))
