"""What a person's key is for: to see their machines, and to have them pause and go on."""

from dataclasses import dataclass
from typing import ClassVar

from dashboard.api.answers import Answer
from dashboard.api.keyed import Keyed
from dashboard.language import mark

NOT_GOOD = (  # what the coordinator says of keys
    mark("this is not a personal key; get one with `sahaj me LINK`"),
    mark("this is not a personal key of this run; get one with `sahaj me LINK`"),
    mark("this personal key has expired; get a new one with `sahaj me LINK`"),
    mark("this personal key has been revoked; get a new one with `sahaj me LINK`"),
)


class MyMachine(Answer):
    """A machine of the person whose key was shown: what it does is training, pausing or away."""

    peer_id: str
    device: str = ""
    doing: str = "away"
    pause: str = ""
    ordered: bool = False
    last_seen: float = 0.0
    samples: int = 0
    samples_per_second: float = 0.0


class MyMachines(Answer):
    """All of a person that their key is for, the newest first."""

    user: str
    machines: list[MyMachine]


@dataclass(frozen=True)
class Me(Keyed):
    """A person's part of the API."""

    PREFIX: ClassVar[str] = "me"
    WRONG_KEY: ClassVar[str] = NOT_GOOD[0]

    def machines(self) -> MyMachines:
        """All that the key is for."""
        return self._ask(MyMachines, "GET", "machines")

    def pause(self, peer_id: str | None) -> MyMachines:
        """Have a machine pause; None: all of them."""
        return self._ask(MyMachines, "POST", "machines/pause", {"peer_id": peer_id})

    def resume(self, peer_id: str | None) -> MyMachines:
        """Have it go on."""
        return self._ask(MyMachines, "POST", "machines/resume", {"peer_id": peer_id})
