"""The queue of a host: which calls are computed together and when, and which are refused.

A host that has more work than it can do in time drops the newest call of the caller that has most work waiting
("longest queue drop", Suter et al., INFOCOM 1998), so a flood displaces itself and not the calls of others. Batches are
filled with calls of the callers that had least work done ("start-time fair queueing", Goyal et al., SIGCOMM 1996), so
large calls get no larger share than small ones. Nothing here knows the time: it is given, in seconds.
"""

import heapq
import itertools
import math
from collections import deque
from dataclasses import dataclass
from enum import Enum

from experts.grid import Uid
from experts.host.settings import HostLimits

EXPECTED_SPEED = 10_000.0  # rows a second, forward, before anything was measured
BACKWARD_COST = 3.0  # of a row, in rows forward: computing the outputs again, and two gradients
CALL_COST = 16  # rows; what a call costs however few rows it has
NEWEST = 0.2  # the weight of the newest batch in the speed


class Direction(Enum):
    """What is computed."""

    FORWARD = "forward"
    BACKWARD = "backward"


@dataclass(frozen=True, eq=False)
class Call:
    """The rows of one caller for one expert."""

    caller: str  # the user; all devices of a user have one share
    uid: Uid
    direction: Direction
    rows: int
    data: bytes | memoryview  # encoded inputs, followed by encoded gradients on the way back
    version: int = 0  # of the expert at the forward call, on the way back

    @property
    def cost(self) -> float:
        """Work, in rows forward."""
        return (self.rows + CALL_COST) * (BACKWARD_COST if self.direction is Direction.BACKWARD else 1.0)


class CallQueue:
    """Calls that wait, by caller."""

    def __init__(self, limits: HostLimits):
        self._limits = limits
        self._waiting: dict[str, deque[tuple[float, Call]]] = {}  # with the time of each
        self._costs: dict[str, float] = {}  # what waits of each caller
        self._had: dict[str, float] = {}  # work taken of each caller that waits or had more than others
        self._least = 0.0  # of those that waited at the last batch: a newcomer begins with it
        self._calls, self._rows = 0, 0
        self.speed = EXPECTED_SPEED  # rows forward a second, measured

    @property
    def load(self) -> float:
        """Seconds of work that wait."""
        return sum(self._costs.values()) / self.speed

    def offer(self, call: Call, now: float) -> list[Call]:
        """Take a call in, and return those that are refused for it: none, others, or this one."""
        if call.caller not in self._waiting:
            self._waiting[call.caller] = deque()
            self._had[call.caller] = max(self._had.get(call.caller, 0.0), self._least)
        self._waiting[call.caller].append((now, call))
        self._count(call, 1)
        refused = []
        while (self.load > self._limits.longest_queue and self._calls > 1) or self._calls > self._limits.most_calls:
            refused.append(self._drop_newest(call.caller))
        return refused

    def due_in(self, now: float) -> float | None:
        """Seconds until the next batch is to be computed, at least 0; None while nothing waits."""
        if not self._waiting:
            return None
        if self._rows >= self._limits.batch_rows:
            return 0.0
        oldest = min(calls[0][0] for calls in self._waiting.values())
        return max(0.0, oldest + self._limits.longest_wait - now)

    def take(self) -> list[Call]:
        """The next batch, at least one call.

        The caller that had least comes first, with a call of any size; then those whose calls fit into the rows of a
        batch. One whose call does not fit has had least at some later batch.
        """
        batch: list[Call] = []
        room = self._limits.batch_rows
        turns = itertools.count()
        callers = [(self._had[caller], next(turns), caller) for caller in self._waiting]
        heapq.heapify(callers)
        self._least = callers[0][0] if callers else 0.0
        while callers and (room > 0 or not batch):
            had, _, caller = heapq.heappop(callers)
            calls = self._waiting[caller]
            if batch and calls[0][1].rows > room:
                continue
            _, call = calls.popleft()
            batch.append(call)
            room -= call.rows
            self._had[caller] = had + call.cost
            if calls:
                heapq.heappush(callers, (self._had[caller], next(turns), caller))
            self._removed(call)
        self._forget_work()
        return batch

    def computed(self, batch: list[Call], seconds: float) -> None:
        """A batch took so long: the speed follows."""
        cost = sum(call.cost for call in batch)
        if seconds > 0.0 and cost > 0.0:
            self.speed = math.exp((1 - NEWEST) * math.log(self.speed) + NEWEST * math.log(cost / seconds))

    def forget(self, call: Call) -> None:
        """Nobody waits for this call any longer. One that was taken is left alone."""
        calls = self._waiting.get(call.caller, deque())
        entry = next((one for one in calls if one[1] is call), None)
        if entry is not None:
            calls.remove(entry)
            self._removed(call)

    def _forget_work(self) -> None:
        """Of callers that are equal to a newcomer; of all when nobody waits."""
        if not self._waiting:
            self._had, self._least = {}, 0.0
        self._had = {caller: had for caller, had in self._had.items() if caller in self._waiting or had > self._least}

    def _drop_newest(self, offering: str) -> Call:
        most = max(self._costs, key=lambda caller: (self._costs[caller], caller == offering))
        _, call = self._waiting[most].pop()
        self._removed(call)
        return call

    def _removed(self, call: Call) -> None:
        if not self._waiting[call.caller]:
            del self._waiting[call.caller]
        self._count(call, -1)

    def _count(self, call: Call, sign: int) -> None:
        self._calls += sign
        self._rows += sign * call.rows
        self._costs[call.caller] = self._costs.get(call.caller, 0.0) + sign * call.cost
        if call.caller not in self._waiting:
            del self._costs[call.caller]
