"""The times that a protocol machine waits, all in one place."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Timeouts:
    """Seconds. They decide how soon something is tried, never whether it is safe."""

    report: float = 2.0  # between two reports of a peer
    meeting: float = 2.0  # that a meeting waits for peers that do not call
    batch: float = 1.0  # that a call waits for the end of a batch; less than a meeting lasts
    pieces: float = 3.0  # that a reducer waits for senders of which nothing comes
    sending: float = 90.0  # that it waits for senders at all; 18 million parameters over 2 Mbit/s take 75 s
    part: float = 5.0  # that a convener waits for a reducer that says nothing
    ballot: float = 20.0  # without any news, after which a convener begins a new ballot
    round: float = 120.0  # that a round may take while something moves, before others try
    resend: float = 1.0  # between two sendings of what may have been lost
    fetch: float = 1.5  # in which something has to come of what a source was asked for
    absence: float = 20.0  # without a message of a convener, or without a commit though the batch is full
    word: float = 300.0  # of a voter that says to convene, for a step: then others may take over
    succession: float = 3.0  # between two candidates that may take over
    forget: float = 60.0  # after which a silent peer is dropped from the view

    @property
    def reset(self) -> float:
        """Without a quorum, before the coordinator names new voters."""
        return 2 * self.absence + self.ballot
