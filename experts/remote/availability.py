"""Whether a host is called: after a failure it is left out, and looked for again at growing intervals. Pure."""

from dataclasses import dataclass

FIRST_LOOK, LONGEST_LOOK = 1.0, 120.0  # seconds from a failure, or a look in vain, to the next look
FORGIVEN = 60.0  # seconds of calls without failure, after which the next failure counts as the first


@dataclass
class Availability:
    """Of one host. Times are in seconds of any clock."""

    is_out: bool = False
    failures: int = 0
    back_since: float = float("-inf")

    def failed(self, now: float) -> float | None:
        """A call failed. The seconds until the host is to be looked for; None if that is under way already."""
        is_under_way = self.is_out
        if not self.is_out and now - self.back_since >= FORGIVEN:
            self.failures = 0
        self.is_out = True
        return None if is_under_way else self._wait()

    def missed(self) -> float:
        """It was looked for in vain. The seconds until the next look."""
        return self._wait()

    def found(self, now: float) -> None:
        """It answers again."""
        self.is_out, self.back_since = False, now

    def _wait(self) -> float:
        self.failures += 1
        return float(min(LONGEST_LOOK, FIRST_LOOK * 2 ** min(self.failures - 1, 16)))
