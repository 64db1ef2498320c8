"""The rounds of one global step, or of one average of parameters: what a peer brings to each, and what comes of them.

A peer whose group fails goes on with what it has, as in the paper.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from averaging.log.header import Ballot, Certificate, Entry, Header, HeaderKind, Part
from averaging.moshpit.group_round import ROUNDS, GroupRound, ballot_number, is_first, share
from averaging.protocol.buffers import Buffers
from averaging.protocol.messages import Offer, Plan

CARRIED = 2**40  # added to the number of a ballot: what stands for a mean among the numbers of buffers


@dataclass(frozen=True)
class Mean:
    """What a peer goes on with: chunks that are here, and their weight. Its pieces are made of their bytes."""

    weight: int
    chunks: tuple[str, ...]  # digests


class StepRounds:
    """What one peer brings to the rounds of a step, and has after them.

    Args:
        step: before this one.
        groups: members of this peer's group in each round.
        mean: parameters, to begin with; None: gradients are averaged.
    """

    def __init__(
        self,
        step: int,
        groups: Sequence[Sequence[str]],
        mean: Mean | None,
        buffers: Buffers,
        now: float,
    ):
        self.step, self.began, self.mean = step, now, mean
        self.of_parameters, self.averaged = mean is not None, False
        self.round: GroupRound | None = None
        self.first_number = ballot_number(step, 0, of_parameters=self.of_parameters)
        self.number = self.first_number  # of the round that is next
        self._groups, self._buffers = list(groups[:ROUNDS]), buffers
        self.offered = 0  # the number that stands for the mean in the open round
        self.slowest = 0.0  # seconds that a round of this step has taken since its plan
        self._first: Header | None = None  # of the group of the first round
        self._spent: tuple[int, ...] = ()  # buffers whose pieces have been sent

    def next_round(self) -> tuple[int, Sequence[str], tuple[Offer, ...]] | None:
        """Of the next round the number of its ballot, the members, and what this peer brings; None: there is none."""
        while self._groups:
            members, number = self._groups.pop(0), self.number
            self.number += 1
            if len(members) > 1 or is_first(number):
                return number, members, self._offers(number)
        return None

    def _offers(self, number: int) -> tuple[Offer, ...]:
        if is_first(number):
            return self._buffers.offer()
        if self.mean is not None:
            self.offered = CARRIED + number
            return (Offer(self.offered, self.mean.weight, 0, None),) if self.mean.weight else ()
        closed = self._buffers.closed  # its group has failed after it had sent its pieces
        return tuple(Offer(one, closed[one].weight, 0, None) for one in self._spent if one in closed)

    def on_plan(self, plan: Plan, me: str, now: float) -> None:
        """The convener of the open round knows all members."""
        if self.round is not None and plan.ballot == self.round.ballot:
            if is_first(plan.ballot.number):
                self._spent = plan.buffers_of(me)
            self.round.on_plan(plan, now)

    def end_round(self, me: str, now: float) -> GroupRound:
        """Take in what came of the open round, which is over."""
        assert self.round is not None
        ended, self.round, self.offered = self.round, None, 0
        if ended.planned_at is not None:
            self.slowest = max(self.slowest, now - ended.planned_at)
        if ended.header is not None:
            self.mean, self.averaged = Mean(share(ended.header.members, me), ended.header.chunks), True
            if is_first(ended.ballot.number):
                self._first = ended.header
                # those that came too late for all chunks go into the next step
                self._spent = next(one.buffers for one in ended.header.members if one.session == me)
        return ended

    def entry(self, run: str, me: str, *, credits: bool) -> Entry:
        """What this peer applies. Its buffers that are in it, or that others have had, are gone."""
        self._buffers.remove(self._spent)
        first = self._first
        chunks = self.mean.chunks if self.averaged and self.mean is not None else ()
        entry = passed(run, self.step + 1, me)
        header = Header(
            run=run,
            step=self.step + 1,
            kind=HeaderKind.UPDATE,
            previous="",
            ballot=entry.header.ballot,
            members=first.members if first is not None and credits else (),
            parts=(Part(me, chunks),) if chunks else (),
            exclusions=first.exclusions if first is not None and credits else (),
        )
        return Entry(header, entry.certificate)


def passed(run: str, step: int, me: str) -> Entry:
    """A step in which a peer has averaged with no others: its state stays as it is."""
    ballot = Ballot(ballot_number(step - 1, ROUNDS - 1, of_parameters=False), me)  # pieces up to it are of no use
    return Entry(Header(run, step, HeaderKind.UPDATE, "", ballot), Certificate(ballot))
