"""Pauses that a person orders on their page: what the page asks and is told, and what a trainer asks."""

from enum import Enum

from pydantic import Base64Bytes, Field

from swarm.access.join_messages import Message

PAUSE_ORDER = "/api/pause_order"


class OrderQuestion(Message):
    """`POST /api/pause_order`: a trainer asks whether its person wants a pause."""

    peer_id: str = Field(max_length=100)
    pass_: Base64Bytes = Field(
        alias="pass", serialization_alias="pass", description="of this peer; it may have expired, as in a long pause"
    )


class OrderAnswer(Message):
    """What the person has ordered last."""

    paused: bool


class Doing(str, Enum):
    """What a machine does now."""

    TRAINING = "training"
    PAUSING = "pausing"
    AWAY = "away"


class Machine(Message):
    """A machine of a person."""

    peer_id: str
    device: str = Field(description="as the device names itself")
    doing: Doing
    pause: str = Field(description="why it pauses, as it says; empty if it does not")
    ordered: bool = Field(description="whether its person has ordered a pause")
    last_seen: float = Field(description="unix time, seconds")
    samples: int = Field(description="counted for it, over all its sessions")
    samples_per_second: float = Field(description="now; 0 if it does not train")


class MachinesOfPerson(Message):
    """`GET /api/me/machines`, and the answer to each order: the newest first."""

    user: str = Field(description="as in passes")
    machines: list[Machine]


class MachineOrder(Message):
    """`POST /api/me/machines/pause` and `/resume`."""

    peer_id: str | None = Field(None, max_length=100, description="of the machine; none: all of them")
