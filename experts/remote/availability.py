"""Whether a host is called: after a failure it is left out, and looked for again at growing intervals. Pure."""

from dataclasses import dataclass

FIRST_LOOK, LONGEST_LOOK = 1.0, 120.0  # seconds from a failure, or a look in vain, to the next look
FORGIVEN = 3  # calls answered in a row, after which the next failure counts as the first


@dataclass
class Availability:
    """Of one host."""

    is_out: bool = False
    failures: int = 0
    answers: int = 0  # in a row

    def answered(self) -> None:
        """A call was answered; answers to looks do not count, because a host may answer these alone."""
        self.answers += 1
        if self.answers >= FORGIVEN:
            self.failures = 0

    def failed(self) -> float | None:
        """A call failed. The seconds until the host is to be looked for; None if that is under way already."""
        is_under_way = self.is_out
        self.is_out, self.answers = True, 0
        return None if is_under_way else self.missed()

    def missed(self) -> float:
        """It was looked for in vain. The seconds until the next look."""
        self.failures += 1
        return float(min(LONGEST_LOOK, FIRST_LOOK * 2 ** min(self.failures - 1, 16)))

    def found(self) -> None:
        """It answers again."""
        self.is_out = False
