"""What all hosts and trainers of a run agree on about its experts, and what a host allows its callers."""

import hashlib
from dataclasses import dataclass

from experts.expert import Expert, new_expert
from experts.grid import Grid, Uid
from swarm.run_file import RunFile


@dataclass(frozen=True)
class ExpertSettings:
    """Of a run. Peers with other settings refuse each other."""

    grid: Grid
    width: int  # of the rows that travel
    hidden: int  # of each expert's hidden layer
    learning_rate: float = 1e-3  # of each expert's Adam
    max_grad_norm: float = 1.0  # of what one caller's rows add to the gradient of an expert's step
    max_staleness: int = 64  # steps of an expert between a forward call and its gradient; beyond that there is no step
    seed: int = 0

    @property
    def parameters(self) -> int:
        """Of each expert."""
        return self.width * (2 * self.hidden + 3) + self.hidden

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that differ when anything here does."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]

    def new(self, uid: Uid) -> Expert:
        """The expert as it is before its first step, the same on every machine."""
        seed = int.from_bytes(hashlib.sha256(f"{self.seed} {uid}".encode()).digest()[:4], "big")
        return new_expert(self.width, self.hidden, seed)


@dataclass(frozen=True)
class HostLimits:
    """What a host allows. Times in seconds."""

    batch_rows: int = 2048  # that are computed at once ...
    longest_wait: float = 0.01  # ... or what there is after this time
    longest_queue: float = 2.0  # of work; beyond it, calls are refused
    most_calls: int = 4096  # that wait
    request_rows: int = 8192  # of all experts in one request; callers know it, so it is the same for all hosts
    requests: int = 4  # of one stream at a time; the next one is not read before
    receiving: int = 64  # requests that have begun to arrive, of all streams
    streams: int = 1024
    streams_of_a_user: int = 8
    states_a_minute: int = 64  # of one user
    busy_pause: float = 0.1  # before a caller is told that there is no room: it asks less often
    strangers: int = 64  # streams that have not shown a pass yet, of which the oldest has to go ...
    strangers_of_a_peer: int = 2  # ... and of one peer
    hello: float = 5.0  # to show it
    arrive: float = 5.0  # for a request, once it has begun: its caller does not wait for longer
    stall: float = 60.0  # for an answer to be taken


def settings_of(run: RunFile) -> ExpertSettings | None:
    """What the run file says; None if the run has no experts."""
    section = run.experts
    if section is None:
        return None
    return ExpertSettings(
        tuple(section.grid), section.width, section.hidden, section.learning_rate, seed=run.model.seed
    )
