"""Global steps that a swarm had finished and then had no more, though it may have done them again."""

LAG = 2.0  # seconds in which all who were in a round have said that it is over


class Steps:
    """Follows the newest global step from look to look."""

    def __init__(self) -> None:
        self.lost = 0
        self._reached = 0
        self._fell: float | None = None  # when those that live were first behind it, in monotonic seconds

    def look(self, held: int, said: int, now: float) -> None:
        """Look once more.

        Args:
            held: the newest global step of those that live.
            said: that of all who lived at the last look.
            now: monotonic seconds.
        """
        self._reached = max(self._reached, held, said)
        if held == self._reached:
            self._fell = None
        elif self._fell is None:
            self._fell = now
        elif now >= self._fell + LAG:
            self.lost += self._reached - held
            self._reached, self._fell = held, None
