"""What one trainer is started with; everything else is in the run file. Quick to import."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from swarm.leaving import GRACE
from swarm.logging.startup_timer import StartupTimer
from trainer.console.moments import Milestones
from trainer.pausing.watch import PauseWatch

if TYPE_CHECKING:
    from hivemind.dht import DHT
    from transformers import PreTrainedTokenizerFast

    from swarm.access.gate import Gate
    from swarm.dht.node import Network
    from swarm.identity import Identity


@dataclass(frozen=True)
class VolunteerOptions:
    """What a volunteer may choose. Addresses are libp2p multiaddrs, such as /ip4/0.0.0.0/tcp/31337."""

    client_mode: bool | None = None  # accept no connections; None: find out
    listen: tuple[str, ...] = ()
    announce: tuple[str, ...] = ()  # what others are told instead of the addresses that we listen on
    relays: tuple[str, ...] = ()
    device: str | None = None  # as torch names it; None: the best there is
    micro_batch: int | None = None  # samples in a forward pass; None: find out by trying
    compile: bool = False  # torch.compile: slower to start, faster on long runs
    country: str | None = None  # ISO 3166, where the person wants it counted
    max_upload: float | None = None  # Mbit/s that averaging may take
    max_download: float | None = None  # Mbit/s
    grace: float | None = None  # seconds after SIGTERM in which the global step may be finished
    cores: int | None = None  # of the processor; None: all

    def network(self, initial_peers: Sequence[str], *, client_mode: bool) -> Network:
        """How this peer is reached."""
        from swarm.dht.node import Network

        return Network(
            initial_peers=initial_peers,
            listen=self.listen or Network.listen,
            announce=self.announce,
            client_mode=client_mode,
            relays=self.relays,
        )


@dataclass(frozen=True)
class TrainerOptions:
    """Of one trainer."""

    tokenizer: PreTrainedTokenizerFast
    fingerprint: str  # of the run with this tokenizer
    identity: Identity
    gate: Gate
    network: Network
    chosen: VolunteerOptions = field(default_factory=VolunteerOptions)
    default_grace: float = GRACE  # seconds, where none was chosen
    when_joined: Callable[[DHT], None] = lambda _: None  # called once helper processes run and threads may start
    pauses: PauseWatch = field(default_factory=PauseWatch)
    milestones: Milestones = field(default_factory=Milestones)  # that its person is told of
    timer: StartupTimer = field(default_factory=StartupTimer)
