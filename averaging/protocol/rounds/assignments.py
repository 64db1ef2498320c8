"""A convener's view of the reducing: who reduces which part, who takes the place of a reducer that is late."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from averaging.log.header import Ballot
from averaging.protocol.messages import Assignment, Call, Message, Plan, Reduced, Reducing
from averaging.protocol.rounds.parts import Line, Planner, checked
from averaging.protocol.settings import Settings


class Assignments:
    """Of one ballot: the plan and its results."""

    def __init__(
        self,
        me: str,
        instance: str,
        ballot: Ballot,
        settings: Settings,
        calls: Mapping[str, Call],
        lines: Sequence[Line],
        planner: Planner,
        send: Callable[[str, Message], None],
        now: float,
    ):
        fattest = sorted((line for line in lines if line.reachable), key=lambda line: -line.carries)
        self._stand_ins = [line.session for line in fattest]
        self._me, self._timing, self._send = me, settings.timing, send
        self._members = list(calls)
        planned = planner(settings.chunks, lines)
        self.plan = Plan(
            instance=instance,
            ballot=ballot,
            members=tuple(
                (session, tuple(offer.number for offer in call.buffers)) for session, call in sorted(calls.items())
            ),
            parts=checked(planned.parts, settings.chunks, lines),
            weights=tuple(sum(offer.weight for offer in call.buffers) for _, call in sorted(calls.items())),
            resting=planned.resting,
            step_seconds=planned.step_seconds,
        )
        self._results: dict[int, Reduced] = {}  # by first chunk
        self._assigned_at = {part.first: now for part in self.plan.parts}
        self._tried = {part.first: {part.reducer} for part in self.plan.parts}
        self.tell()

    def tell(self) -> None:
        """Send the plan to its members."""
        for session in self._members:
            self._send(session, self.plan)

    def reducing(self, session: str, news: Reducing, now: float) -> None:
        """A reducer is at work, so that it is not late."""
        for part in self.plan.parts:
            if (part.reducer, part.first, part.attempt) == (session, news.first, news.attempt):
                self._assigned_at[part.first] = now

    def lost(self, session: str) -> None:
        """The connection to a member has broken: as a reducer it is late."""
        self._stand_ins = [one for one in self._stand_ins if one != session]
        for part in self.plan.parts:
            if part.reducer == session:
                self._assigned_at[part.first] = float("-inf")

    def reduced(self, session: str, result: Reduced) -> None:
        """A part is done. The first reducer that has done it wins; members fetch by digest what they lack of it."""
        part = next((one for one in self.plan.parts if one.first == result.assignment.first), None)
        if part is not None and session in self._tried[part.first] and len(result.chunks) == part.count:
            done = replace(result, assignment=replace(part, reducer=session))
            self._results.setdefault(part.first, done)

    def results(self, now: float) -> list[Reduced] | None:
        """One for each part, in their order; None while some are missing, whose late reducers are replaced."""
        waiting = [part for part in self.plan.parts if part.first not in self._results]
        if not waiting:
            return [self._results[first] for first in sorted(self._results)]
        late = [part for part in waiting if now >= self._assigned_at[part.first] + self._timing.part]
        if late:
            parts = tuple(self._reassigned(part, now) if part in late else part for part in self.plan.parts)
            self.plan = replace(self.plan, parts=parts)
            self.tell()
        return None

    def _reassigned(self, part: Assignment, now: float) -> Assignment:
        """The same chunks, at a stand-in: of those that have not tried them, the one with the fattest line.

        It is the convener if there is no other.
        """
        others = [one for one in self._stand_ins if one not in self._tried[part.first]]
        stand_in = others[0] if others else self._me
        self._assigned_at[part.first] = now
        self._tried[part.first].add(stand_in)
        return replace(part, reducer=stand_in, attempt=part.attempt + 1)
