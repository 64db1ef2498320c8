"""Which member reduces which chunks of the vector, which takes the place of a late reducer, and which compute next.

The process may give a peer another planner: DeDLOC's looks at bandwidths and processors (`averaging/load_balancing/`).
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import replace

from averaging.log.header import Ballot, Header, Member
from averaging.protocol.messages import Assignment, Bandwidth, Call, Plan, Reduced, Reducing
from averaging.protocol.rounds.reliability import Patience, explained
from averaging.protocol.session import Session

MOST_PARTS = 4  # that are equal: where no bandwidth is known, a thin line among theirs would hold up all others


@dataclass(frozen=True)
class MemberProfile:
    """What a planner knows of a member."""

    session: str
    sends: bool  # has gradients
    reachable: bool  # by all other members, as a reducer has to be
    bandwidth: Bandwidth | None  # None: not measured
    speed: float = 0.0  # samples a second that it computes, or would; 0: it cannot, or it is not known
    rests: bool = False  # computes no gradients, as it was told

    @property
    def carries(self) -> float:
        """Mbit/s, in the narrower direction; 0 if that is not known."""
        return min(self.bandwidth.upload, self.bandwidth.download) if self.bandwidth is not None else 0.0


@dataclass(frozen=True)
class Planned:
    """A planner's answer."""

    parts: tuple[Assignment, ...]
    resting: tuple[str, ...] = ()  # sessions that are to compute no gradients from now on
    seconds: float = 0.0  # that this round takes, as lines were measured; 0: that is not known


Planner: TypeAlias = Callable[[int, Sequence[MemberProfile]], Planned]  # of so many chunks; reachable members reduce


def one_sided(header: Header) -> list[str]:
    """Reducers that lack pieces of most senders in the other parts: of most users, and of most of the weight.

    Such a reducer makes its part of the mean its own, or its line is too thin for a reducer.
    """
    missing = {one.session: set(one.chunks) for one in header.exclusions}
    found, end = [], 0
    for part in header.parts:
        own = range(end, end := end + len(part.chunks))
        elsewhere = len(header.chunks) - len(own)
        senders = (one for one in header.members if one.buffers and one.session != part.reducer)
        others = {one: missing.get(one.session, set()) for one in senders}
        heard = {one for one, absent in others.items() if 2 * len(absent.difference(own)) < elsewhere}
        left_out = {one for one in heard if 2 * len(others[one].intersection(own)) > len(own)}
        users, of = len({one.user for one in left_out}), len({one.user for one in heard})
        if users > 1 and 2 * users > of and 2 * _weight(left_out) > _weight(heard):
            found.append(part.reducer)
    return found


def _weight(members: Iterable[Member]) -> int:
    return sum(one.weight for one in members)


def equal_parts(chunks: int, members: Sequence[MemberProfile]) -> Planned:
    """Runs of chunks of nearly the same length, for the first reachable members; all members train."""
    reducers = [one.session for one in members if one.reachable][:MOST_PARTS]
    count = min(chunks, len(reducers))
    bounds = [chunks * index // count for index in range(count + 1)]
    return Planned(
        tuple(
            Assignment(first, following - first, reducer, attempt=0)
            for first, following, reducer in zip(bounds, bounds[1:], reducers, strict=False)
        )
    )


def in_turns(calls: Mapping[str, Call], instance: str) -> list[tuple[str, Call]]:
    """Members in an order that is another one for each header; planners deal parts out in it.

    So equals take turns at reducing, no reducer has the same chunks for long, and a coordinator that reduces sees the
    whole vector in time.
    """
    return sorted(calls.items(), key=lambda member: hashlib.sha256(f"{instance} {member[0]}".encode()).digest())


def reached_by_all(calls: Mapping[str, Call], accepting: Collection[str]) -> frozenset[str]:
    """Members that may reduce: all others have a way to them.

    Those that accept connections, and those behind a router that are connected to everybody else. Streams go both ways
    over a connection, whichever side has opened it.

    Args:
        accepting: sessions that accept connections.
    """
    told = {session: set(call.connected) for session, call in calls.items()}
    return frozenset(
        one
        for one in calls
        if one in accepting or all(other in told[one] or one in told[other] for other in calls if other != one)
    )


def covers(parts: Sequence[Assignment], chunks: int) -> bool:
    """Whether parts are all chunks, once and in their order."""
    ends = [*(part.first for part in parts[1:]), chunks]
    begins = bool(parts) and parts[0].first == 0 and all(part.count > 0 for part in parts)
    return begins and all(part.first + part.count == end for part, end in zip(parts, ends, strict=True))


class Assignments:
    """A convener's view of the reducing in one ballot: the plan and its results.

    Args:
        calls: of the members, by session.
        members: the same peers, as the header will name them; pieces are added in this order.
        reachable: those of them to which all others have a way; the ones that are trusted reduce, if there are any.
    """

    def __init__(
        self,
        session: Session,
        instance: str,
        ballot: Ballot,
        calls: Mapping[str, Call],
        members: tuple[Member, ...],
        reachable: Collection[str],
        planner: Planner,
        patience: Patience,
        now: float,
    ):
        reachable = {one for one in reachable if patience.trusts(one, now)} or reachable
        profiles = [
            MemberProfile(one, bool(call.buffers), one in reachable, call.bandwidth, call.speed, call.rests)
            for one, call in in_turns(calls, instance)
        ]
        fattest = sorted((one for one in profiles if one.reachable), key=lambda one: -one.carries)
        self._stand_ins = [one.session for one in fattest]
        self._me, self._timeouts, self._send = session.me.session, session.timeouts, session.send
        self._patience = patience
        chunks, users = session.settings.chunks, {one.user for one in members}
        planned = planner(chunks, profiles)
        self.plan = Plan(
            instance=instance,
            ballot=ballot,
            members=members,
            parts=planned.parts,
            resting=planned.resting,
            on_probation=() if session.settings.robust == "off" else tuple(sorted(session.on_probation & users)),
            seconds=planned.seconds,
        )
        self._began = now
        self._results: dict[int, Reduced] = {}  # by first chunk
        self._late: dict[str, float] = {}  # seconds by reducer; they count once others have shown that pieces came
        self._heard_at = {part.first: now for part in self.plan.parts}
        self._assigned_at = dict(self._heard_at)
        self._tried = {part.first: {part.reducer} for part in self.plan.parts}
        self.tell()

    def tell(self) -> None:
        """Send the plan to its members."""
        for member in self.plan.members:
            self._send(member.session, self.plan)

    def reducing(self, session: str, news: Reducing, now: float) -> bool:
        """Take in that a reducer is at work, so that it is not late, and return whether a part waits for that."""
        for part in self.plan.parts:
            if (part.reducer, part.first, part.attempt) == (session, news.first, news.attempt):
                self._heard_at[part.first] = now
                return part.first not in self._results
        return False

    def lost(self, session: str) -> None:
        """The connection to a member has broken: as a reducer it is late."""
        self._stand_ins = [one for one in self._stand_ins if one != session]
        for part in self.plan.parts:
            if part.reducer == session:
                self._heard_at[part.first] = float("-inf")

    def reduced(self, session: str, result: Reduced, now: float) -> bool:
        """Take in that a part is done, and return whether that is new.

        The first reducer that has done it wins; members fetch by digest what they lack of it.
        """
        part = next((one for one in self.plan.parts if one.first == result.assignment.first), None)
        if part is None or part.first in self._results:
            return False
        if session not in self._tried[part.first] or len(result.chunks) != part.count:
            return False
        if part.reducer == session:
            self._late[session] = max(self._late.get(session, 0.0), self._unexplained(part, now))
        self._results[part.first] = replace(result, assignment=replace(part, reducer=session))
        return True

    def results(self, now: float) -> list[Reduced] | None:
        """One for each part, in their order; None while some are missing, whose late reducers are replaced."""
        waiting = [part for part in self.plan.parts if part.first not in self._results]
        if not waiting:
            for reducer, seconds in self._late.items():
                self._patience.waited(reducer, seconds, now, since=self._began)
            return [self._results[first] for first in sorted(self._results)]
        late = [part for part in waiting if self._has_to_be_replaced(part, now)]
        if late:
            for part in late:
                self._late[part.reducer] = now - self._assigned_at[part.first]
            parts = tuple(self._reassigned(part, now) if part in late else part for part in self.plan.parts)
            self.plan = replace(self.plan, parts=parts)
            self.tell()
        return None

    def _has_to_be_replaced(self, part: Assignment, now: float) -> bool:
        is_silent = now >= self._heard_at[part.first] + self._timeouts.part
        return is_silent or self._unexplained(part, now) >= self._patience.left(part.reducer, now)

    def _unexplained(self, part: Assignment, now: float) -> float:
        """Seconds since it was assigned that neither lines nor a sender that keeps silent explain."""
        by_lines = explained(self.plan.seconds, self._timeouts.sending)
        return now - self._assigned_at[part.first] - by_lines - self._timeouts.pieces

    def _reassigned(self, part: Assignment, now: float) -> Assignment:
        """The same chunks, at a stand-in: of those that have not tried them, the one with the fattest line.

        It is the convener if there is no other.
        """
        others = [one for one in self._stand_ins if one not in self._tried[part.first]]
        stand_in = others[0] if others else self._me
        self._assigned_at[part.first] = self._heard_at[part.first] = now
        self._tried[part.first].add(stand_in)
        return replace(part, reducer=stand_in, attempt=part.attempt + 1)
