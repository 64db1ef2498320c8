"""What a volunteer may choose when starting; everything else is in the run file."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hivemind.dht import DHT

from swarm.access.gate import Gate
from swarm.dht.node import Network
from swarm.identity import Identity
from swarm.leaving import GRACE
from trainer.startup_timer import Steps


@dataclass(frozen=True)
class TrainerOptions:
    """Of one trainer."""

    name: str
    state_folder: Path  # holds the identity
    network: Network
    device: str | None = None  # as torch names it; found if absent
    micro_batch: int | None = None  # samples in a forward pass; found if absent
    grace: float = GRACE  # seconds after SIGTERM in which the global step may be finished
    compile: bool = False  # torch.compile: slower to start, faster on long runs
    country: str | None = None  # ISO 3166, where the person wants it counted
    max_upload: float | None = None  # Mbit/s that averaging may take
    max_download: float | None = None  # Mbit/s
    identity: Identity | None = None  # loaded already; from the state folder if absent
    gate: Gate | None = None  # in a run that gives passes
    when_joined: tuple[Callable[[DHT], None], ...] = ()  # called once helper processes are there and threads may start
    steps: Steps = field(default_factory=Steps)  # of the way to the first sample
