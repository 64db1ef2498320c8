"""The time in which no coordinator was here: trainers tell of it for long afterwards, and each step counts once."""

import math
from dataclasses import dataclass, field

# For how long after its first round a coordinator hears of older steps that were taken while it was away: trainers
# that kept all they can tell of it in 40 minutes or 300 steps (trainer/contributions.py), whichever takes longer.
COMING_BACK = 3600.0  # seconds
COMING_BACK_STEPS = 512


@dataclass
class Absence:
    """The global steps from `began` until `ended` (exclusive) were taken while no coordinator was here.

    All that trainers tell of them would take much memory. So what was credited is kept as one bit of a number for
    each peer, in which claims that come again, under another session perhaps, are found.
    """

    began: float
    ended: float = math.inf
    over: bool = False  # nobody has anything to tell of it any more
    _since: tuple[float, int] | None = None  # monotonic seconds and global step of the first look after its end
    _settled: dict[str, int] = field(default_factory=dict)  # by peer, a bit for each step

    def look(self, newest: int, now: float) -> None:
        """See whether it is over; `newest` is a global step, `now` monotonic seconds."""
        if math.isinf(self.ended):
            return
        since, step = self._since = self._since or (now, newest)
        if now > since + COMING_BACK and newest > step + COMING_BACK_STEPS:
            self.over = True
            self._settled.clear()

    def covers(self, step: int) -> bool:
        """Whether a claim of this global step may still come."""
        return not self.over and self.began <= step < self.ended

    def settle(self, peer: str, step: int) -> None:
        """What this peer brought to this global step is credited."""
        self._settled[peer] = self._settled.get(peer, 0) | 1 << step - int(self.began)

    def is_settled(self, peer: str, step: int) -> bool:
        """Whether it was credited before."""
        return bool(self._settled.get(peer, 0) >> step - int(self.began) & 1)
