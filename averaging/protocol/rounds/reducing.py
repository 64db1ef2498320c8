"""A member's work in a round: it sends its pieces, and reduces the parts that are planned for it.

A reducer encodes each mean once and sends the same bytes to every member and to itself. It waits for each sender until
that has been silent for a while, or all of them for long; one that is missing is named, and the header will exclude it
from that chunk.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from averaging.log.header import Ballot
from averaging.log.shares import LOUDEST
from averaging.protocol.actions import Average, Loud
from averaging.protocol.messages import Assignment, Chunk, Piece, Plan, Reduced, Reducing
from averaging.protocol.rounds.pieces import Pieces
from averaging.protocol.rounds.reliability import MOST, Patience, explained
from averaging.protocol.session import Session


@dataclass
class _Part:
    """A part that this peer reduces."""

    assignment: Assignment
    since: float
    averaging: set[int] = field(default_factory=set)  # chunks whose mean was asked for
    done: dict[int, str] = field(default_factory=dict)  # digest by chunk
    missing: list[tuple[str, int]] = field(default_factory=list)
    loud: dict[str, list[float]] = field(default_factory=dict)  # by sender; in chunks where it was
    told_at: float = float("-inf")  # that pieces are coming in
    is_empty: bool = False  # no sender's piece came for one of the chunks: there is no mean

    @property
    def chunks(self) -> range:
        return range(self.assignment.first, self.assignment.first + self.assignment.count)

    def loud_senders(self) -> tuple[tuple[str, float], ...]:
        """Those that were loud, and the root mean square of how loud they were; in a quiet chunk that is 1."""
        count = self.assignment.count
        squares = {one: sum(t * t for t in times) + count - len(times) for one, times in sorted(self.loud.items())}
        found = {one: math.sqrt(square / count) for one, square in squares.items()}
        return tuple((one, times) for one, times in found.items() if times > LOUDEST)


class Reduction:
    """This peer's pieces and parts in the newest ballot that it knows a plan of."""

    def __init__(self, session: Session, patience: Patience):
        self.patience = patience
        self._me, self._timeouts = session.me.session, session.timeouts
        self._send, self._act = session.send, session.act
        self.plan: Plan | None = None
        self._began = 0.0  # when its first version came
        self._parts: dict[tuple[int, int], _Part] = {}  # by first chunk and attempt
        self._sent: set[tuple[int, int]] = set()
        self._arrived = Pieces[None](session.settings.chunks)
        self._heard_at: dict[str, float] = {}  # by sender of a piece
        self._late: dict[str, float] = {}  # seconds by sender, in the chunk that has waited longest for it
        self._made: set[str] = set()  # digests of means of the open round
        self._made_before: set[str] = set()  # of the round that was decided last

    def begin(self, plan: Plan, now: float) -> None:
        """Take in a plan, or a later version of it in which parts have other reducers."""
        if self.plan is not None and plan.ballot < self.plan.ballot:
            return
        if self.plan is None or plan.ballot != self.plan.ballot:
            self._parts, self._sent, self._late, self._began = {}, set(), {}, now
            self._arrived.keep_only(lambda ballot: ballot >= plan.ballot)
        self.plan = plan
        for assignment in plan.parts:
            key = _key(assignment)
            if key not in self._sent:
                self._sent.add(key)
                self._take_part(assignment, now)
            elif key in self._parts:
                self._tell_if_done(self._parts[key])  # the convener asks again: its answer may have been lost
        self.tick(now)

    def _take_part(self, assignment: Assignment, now: float) -> None:
        assert self.plan is not None
        if assignment.reducer == self._me:
            self._parts[_key(assignment)] = _Part(assignment, now)
        elif self.plan.buffers_of(self._me):
            for chunk in range(assignment.first, assignment.first + assignment.count):
                self._send(assignment.reducer, Piece(self.plan.ballot, chunk, assignment.attempt))

    def piece(self, sender: str, piece: Piece, now: float) -> None:
        """A piece has come, perhaps before the plan."""
        is_over = self.plan is not None and piece.ballot < self.plan.ballot
        if is_over or not self._arrived.keep(sender, piece, None):
            return
        self._heard_at[sender] = now
        for part in self._parts.values():
            if piece.attempt == part.assignment.attempt and piece.chunk in part.chunks:
                if piece.chunk not in part.averaging:
                    self._is_late(sender, now - part.since - self._by_lines)
                self._average_if_ready(part, piece.chunk, now)
                self._tell_that_pieces_come(part, now)

    def moving(self, session: str, now: float) -> None:
        """A part of a piece has come, or of something else over the same line."""
        if self.plan is None or not self.plan.buffers_of(session):
            return
        self._heard_at[session] = now
        for part in self._parts.values():
            if len(part.averaging) < part.assignment.count:
                self._tell_that_pieces_come(part, now)

    def awaits(self, sender: str, piece: Piece) -> bool:
        """Whether a piece is one of the open round."""
        return self.plan is not None and piece.ballot == self.plan.ballot and bool(self.plan.buffers_of(sender))

    def is_reducer(self, session: str) -> bool:
        """Whether it reduces a part in the open round."""
        return self.plan is not None and any(part.reducer == session for part in self.plan.parts)

    def _tell_that_pieces_come(self, part: _Part, now: float) -> None:
        assert self.plan is not None
        if now >= part.told_at + self._timeouts.resend:
            part.told_at = now
            self._send(self.plan.ballot.convener, Reducing(self.plan.ballot, *_key(part.assignment)))

    def averaged(self, done: Average, digest: str, excluded: Iterable[str] = (), loud: Loud = ()) -> None:
        """The mean of a chunk is encoded: all members get it."""
        if self.plan is None or done.plan.ballot != self.plan.ballot:
            return
        self._made.add(digest)
        for member in self.plan.members:
            if member.session != self._me:
                self._send(member.session, Chunk(digest))
        for part in self._parts_with(done):
            part.done[done.chunk] = digest
            part.missing.extend((session, done.chunk) for session in excluded)
            for session, times in loud:
                part.loud.setdefault(session, []).append(times)
            self._tell_if_done(part)

    def has_mean(self, session: str, digest: str) -> bool:
        """Whether a peer has had a mean for sure: it is from the round before the open one, in which it takes part."""
        return (
            digest in self._made_before - self._made  # two means may be the same
            and self.plan is not None
            and any(session == one.session for one in self.plan.members)
        )

    def cannot_average(self, asked: Average) -> None:
        """The process could not do an `Average`, as no piece was usable: the convener looks for another reducer."""
        if self.plan is not None and asked.plan.ballot == self.plan.ballot:
            for part in self._parts_with(asked):
                part.is_empty = True

    def _parts_with(self, asked: Average) -> list[_Part]:
        parts = self._parts.values()
        return [one for one in parts if one.assignment.attempt == asked.attempt and asked.chunk in one.chunks]

    def _tell_if_done(self, part: _Part) -> None:
        assert self.plan is not None
        if len(part.done) == part.assignment.count:
            digests = tuple(part.done[chunk] for chunk in part.chunks)
            result = Reduced(self.plan.ballot, part.assignment, digests, tuple(part.missing), part.loud_senders())
            self._send(self.plan.ballot.convener, result)

    def tick(self, now: float) -> None:
        """Average what is complete, and what has waited long enough."""
        for part in self._parts.values():
            if len(part.averaging) < part.assignment.count:
                for chunk in part.chunks:
                    self._average_if_ready(part, chunk, now)

    def _average_if_ready(self, part: _Part, chunk: int, now: float) -> None:
        assert self.plan is not None
        if part.is_empty or chunk in part.averaging:
            return
        attempt = part.assignment.attempt
        planned = [one.session for one in self.plan.members if one.buffers]
        name = Piece(self.plan.ballot, chunk, attempt)
        missing = [one for one in planned if one != self._me and name not in self._arrived.of(one)]
        # where no other's piece has come there is nothing to average without it
        is_first = len(missing) == len(planned)
        patience = {one: MOST if is_first else self.patience.left(one, now) for one in missing}
        if any(now < self._waits_until(part, one, patience[one]) for one in missing):
            return
        if len(missing) == len(planned):
            part.is_empty = True  # the convener will look for another reducer
            return
        for one in missing:
            silent_since = max(part.since, self._heard_at.get(one, part.since))
            self._is_late(one, min(patience[one], max(now - silent_since, now - part.since - self._by_lines)))
        part.averaging.add(chunk)
        part.missing.extend((session, chunk) for session in missing)
        senders = tuple(session for session in planned if session not in missing)
        self._act(Average(self.plan, chunk, attempt, senders))

    @property
    def _by_lines(self) -> float:
        """Seconds that lines alone explain."""
        assert self.plan is not None
        return explained(self.plan.seconds, self._timeouts.sending)

    def _waits_until(self, part: _Part, sender: str, patience: float) -> float:
        silent_since = max(part.since, self._heard_at.get(sender, part.since))
        patience = min(self._timeouts.pieces, patience)
        return min(silent_since + patience, part.since + min(self._timeouts.sending, self._by_lines + patience))

    def _is_late(self, sender: str, seconds: float) -> None:
        self._late[sender] = max(seconds, self._late.get(sender, 0.0))

    def end(self, decided: Ballot, now: float) -> None:
        """A step is decided, and so are the ballots up to this one. Pieces of a later one may have come already."""
        is_of_plan = self.plan is not None and self.plan.ballot == decided  # or nobody knows what others were told
        for sender, seconds in self._late.items() if is_of_plan else ():
            self.patience.waited(sender, seconds, now, since=self._began)
        self.plan = None
        self._parts, self._sent, self._heard_at, self._late = {}, set(), {}, {}
        self._made, self._made_before = set(), self._made
        self._arrived.keep_only(lambda ballot: ballot > decided)


def _key(assignment: Assignment) -> tuple[int, int]:
    return assignment.first, assignment.attempt
