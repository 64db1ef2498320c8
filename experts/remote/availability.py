"""Which hosts and experts are called: after failures they are left out for growing times. Pure."""

from collections import Counter
from dataclasses import dataclass, field

from experts.remote.wire import Kind

FIRST_LOOK, LONGEST_LOOK = 1.0, 120.0  # seconds from a failure, or a look in vain, to the next look
FORGIVEN = 3  # calls answered in a row, after which the next failure counts as the first
MOST_LATE = 3  # calls of one kind in a row, which are a failure
MOST_REFUSED = 3  # calls of one kind of an expert in a row, after which it is left out ...
FIRST_PAUSE = 5.0  # ... for so many seconds, and for longer after each further one


@dataclass
class Availability:
    """Of one host."""

    is_out: bool = False
    failures: int = 0
    answers: int = 0  # in a row ...
    lates: Counter[Kind] = field(default_factory=Counter)  # ... and these, of each kind

    def answered(self, kind: Kind) -> None:
        """A call was answered; answers to looks do not count, because a host may answer these alone."""
        self.answers += 1
        self.lates[kind] = 0
        if self.answers >= FORGIVEN:
            self.failures = 0

    def late(self, kind: Kind) -> bool:
        """A call was answered too late for its batch. Whether that is a failure by now."""
        self.answers = 0
        self.lates[kind] += 1
        return self.lates[kind] >= MOST_LATE

    def failed(self) -> float | None:
        """A call failed. The seconds until the host is to be looked for; None if that is under way already."""
        is_under_way = self.is_out
        self.is_out, self.answers = True, 0
        self.lates.clear()
        return None if is_under_way else self.missed()

    def missed(self) -> float:
        """It was looked for in vain. The seconds until the next look."""
        self.failures += 1
        return float(min(LONGEST_LOOK, FIRST_LOOK * 2 ** min(self.failures - 1, 16)))

    def found(self) -> None:
        """It answers again."""
        self.is_out = False


@dataclass
class Refusals:
    """In a row, of one kind of calls of one expert of a host that answers. Times are in seconds of any clock."""

    count: int = 0
    until: float = float("-inf")  # it is left out

    def refused(self, now: float) -> None:
        """A call had no answer that is of use."""
        self.count += 1
        if self.count >= MOST_REFUSED:
            self.until = now + min(LONGEST_LOOK, FIRST_PAUSE * 2 ** min(self.count - MOST_REFUSED, 16))
