"""Notices: the organizer's decisions while the run goes on, signed by the run's authority."""

from dataclasses import asdict, dataclass, fields
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hivemind.utils import MSGPackSerializer

from swarm.access.passes import Authority, PassRefused

SEAL = "sahaj notices 1"
SETS = ("banned", "on_probation")  # fields with names in no order
LONGEST = 64 * 1024  # bytes: more would be slow to spread through the DHT


@dataclass(frozen=True)
class BestCheckpoint:
    """A checkpoint that was better than all before it."""

    step: int
    loss: float  # held-out, nats
    below: float | None = None  # by how many nats that is below the loss of a table of word frequencies
    sentence: str = ""  # with the word that the model fills in


@dataclass(frozen=True)
class Notices:
    """All decisions in force; notices that were signed later replace earlier ones."""

    time: float = 0.0  # unix time in seconds when they were signed
    pass_time: float = 0.0  # unix time in seconds by which passes expire: until then they could be renewed
    banned: frozenset[str] = frozenset()  # names as in passes, and peer ids
    on_probation: frozenset[str] = frozenset()  # names as in passes: their gradients are left out of means
    announcement: str = ""
    paused: bool = False  # newcomers are asked to come back later; those who train go on
    stopped: bool = False  # the run is over: trainers leave
    url: str = ""  # of the coordinator's HTTP service now: it may have moved to another machine
    coordinator: str = ""  # its libp2p peer id: it renews passes
    best: BestCheckpoint | None = None  # the newest one that everybody is told of

    def bans(self, user: str, peer_id: str) -> bool:
        """Whether this peer may not take part any more."""
        return user in self.banned or peer_id in self.banned


def notices_key(run_name: str) -> str:
    """The DHT key of the notices."""
    return f"{run_name}_notices"


def sign_notices(notices: Notices, authority: Authority, run_name: str) -> bytes:
    """Notices for the wire.

    Raises:
        ValueError: they are longer than `LONGEST`.
    """
    values = asdict(notices) | {name: sorted(getattr(notices, name)) for name in SETS}
    content = MSGPackSerializer.dumps([SEAL, run_name, values])
    signed = bytes(MSGPackSerializer.dumps([content, authority.sign(content)]))
    if len(signed) > LONGEST:
        raise ValueError(f"notices of {len(signed):,} bytes are too long; at most {LONGEST:,} can be spread")
    return signed


def read_notices(signed: bytes, authority: bytes, run_name: str) -> Notices:
    """Notices from the wire.

    Raises:
        PassRefused: the authority did not sign them, or they are of another run.
    """
    try:
        content, signature = MSGPackSerializer.loads(signed)
        Ed25519PublicKey.from_public_bytes(authority).verify(signature, content)
        seal, run, values = MSGPackSerializer.loads(content)
        if (seal, run) != (SEAL, run_name):
            raise ValueError("of another run")
        best = values.get("best")
        sets = {name: frozenset(values.get(name, ())) for name in SETS}
        read = {**sets, "best": best and BestCheckpoint(**_known(BestCheckpoint, best))}
        return Notices(**_known(Notices, values) | read)
    except Exception:  # any bytes may come from anybody
        raise PassRefused("notices that the run's authority did not sign") from None


def _known(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    """Those of the values that are fields of a class: a newer authority may add some."""
    return {field.name: values[field.name] for field in fields(kind) if field.name in values}
