"""How a round of gradient averaging ends."""

from dataclasses import dataclass


class RoundFailed(RuntimeError):
    """A round of averaging did not give a gradient that can be used; the step was not taken."""


@dataclass(frozen=True)
class RoundReport:
    """How one round of gradient averaging ended for this peer."""

    number: int  # of this peer's rounds, counted from 1
    step: int  # global step, counted from 0, that the round belongs to
    samples: int  # this peer's samples in it
    peers: int  # size of the group, this peer included; 1: alone, nothing to average
    seconds: float  # from the beginning of the round to its end
    problem: str | None  # why it failed

    def describe_failure(self) -> str:
        """One line for people, who count global steps from 1."""
        return f"Global step {self.step + 1}: a round of averaging did not work and is repeated ({self.problem})."
