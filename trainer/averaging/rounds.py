"""How a round of gradient averaging ends."""

import asyncio
import concurrent.futures
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class RoundFailed(RuntimeError):
    """A round of averaging did not give a gradient that can be used; the step was not taken."""


def reason(error: BaseException) -> str:
    """Why a round failed, for people: some errors have no words of their own."""
    match error:
        case _ if str(error):
            return str(error)
        case TimeoutError() | asyncio.TimeoutError() | concurrent.futures.TimeoutError():  # one class since Python 3.11
            return "it took too long"
        case asyncio.CancelledError() | concurrent.futures.CancelledError():
            return "it was given up"
        case _:
            return type(error).__name__


@dataclass(frozen=True)
class RoundReport:
    """How one round of gradient averaging ended for this peer."""

    number: int  # of this peer's rounds, counted from 1
    step: int  # global step, counted from 0, that the round belongs to
    samples: int  # this peer's samples in it
    peers: int  # size of the group, this peer included; 1: alone, nothing to average
    seconds: float  # from the beginning of the round to its end
    problem: str | None  # why it failed
    gradient_norm: float | None = None  # of the mean over all samples of the step; None without one
    weights: Mapping[str, float] | None = None  # samples by peer id, as far as this peer reduced a part; else None
    not_finite: Sequence[str] = ()  # ids of peers that sent numbers that are not finite
    assisted: bool = False  # the coordinator was in the group
    news: str | None = None  # of this peer's role, for the volunteer

    def describe_failure(self) -> str:
        """One line for people, who count global steps from 1."""
        return f"Global step {self.step + 1}: a round of averaging did not work and is repeated ({self.problem})."
