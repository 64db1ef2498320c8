"""Whether a peer computes gradients, or leaves that to the others, as conveners plan it.

A plan is as true as what members say of themselves, and those that are to compute may be gone a moment later. So a
peer rests until the next plan, but not for long without another step; then it computes, and no plan has it rest for a
while.
"""

import math
from collections.abc import Collection

from averaging.protocol.messages import Plan

LASTS = 900.0  # seconds for which a peer rests without another global step
IN_VAIN = 1800.0  # seconds in which a peer that has rested in vain follows no plan


class Resting:
    """The state of one session: whether it rests, and until when."""

    def __init__(self, session: str):
        self._session = session
        self._until = -math.inf
        self._instance = ""
        self._trainers: set[str] = set()
        self._follows_from = -math.inf
        self.rests = False
        self.share = 0.0  # of the averaging that this peer does

    def planned(self, plan: Plan, now: float) -> None:
        """Take in the plan of a round. Never may all rest, so one that says so is not followed.

        Only the first plan after a header has a peer rest for longer: each of them was a step.
        """
        trainers = {one.session for one in plan.members if one.buffers} - set(plan.resting)
        rests = self._session in plan.resting and bool(trainers) and now >= self._follows_from
        if rests and not (self.rests and plan.instance == self._instance):
            self._until = now + LASTS
        self.rests, self._instance, self._trainers = rests, plan.instance, trainers
        own = sum(part.count for part in plan.parts if part.reducer == self._session)
        self.share = own / max(1, sum(part.count for part in plan.parts))

    def tick(self, others: Collection[str], now: float) -> None:
        """Compute again when all that were to do so have left, or when no step has come for long."""
        if self.rests and now >= self._until:
            self.rests, self._follows_from = False, now + IN_VAIN
        elif self.rests and self._trainers.isdisjoint(others):
            self.rests = False
