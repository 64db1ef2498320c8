"""Users whose gradients may be useless: their share of a mean is capped at 5 % until the gradients are useful again.

Two things speak against a user: a peer of theirs agrees with the others less than people do who bring less, audit after
audit; or its gradients are louder than its weight explains, step after step, as those of far fewer samples are. Neither
proves anything, and a text that nobody else has may be the reason, so nobody is shut out. A third of the usual cap
costs honest people little, and takes a liar eight ninths of the harm: noise goes with the square of a share.
"""

import statistics
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt

from averaging.log.credit import loudness
from averaging.log.header import Header, Member, peer_of
from averaging.log.shares import LOUDEST, PROBATION
from coordinator.ledger.worth import compared

AUDITS = 24  # of a peer, the last ones
ENOUGH = 6  # of them, and of the last global steps
DOUBT, TRUST = 2.5, 1.0  # times the error of its mean, that it is below the usual one: from when on, and until when
LEAST = 0.03  # below the usual one, too, and above zero of that: among honest ones a loud liar makes it negative
PART, TRUSTED_PART = 0.25, 0.5  # of the usual one, that its own is at most, likewise: honest ones differ by their text
LOUD, LESS = "loud", "less"  # kinds of doubt
FORGET = 1000  # global steps without a peer


@dataclass(frozen=True)
class Doubt:
    """A user who is on probation from now on."""

    user: str
    session: str
    what: str  # one line


@dataclass
class _Known:
    user: str = ""  # as its pass says; empty: that is not known, and a header is its convener's word
    cosines: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=AUDITS))  # its own, the usual one
    loud: deque[float] = field(default_factory=lambda: deque(maxlen=ENOUGH))  # times what its weight explains
    seen: int = 0  # global step
    doubts: set[str] = field(default_factory=set)  # those of LOUD and LESS that hold

    @property
    def is_loud(self) -> bool:
        """Whether it is in most of the steps: what one convener or reducer says of it in one step changes nothing."""
        return len(self.loud) == ENOUGH and statistics.median_low(self.loud) >= LOUDEST

    @property
    def lag(self) -> float:
        """By how much its cosine is below the usual one, once enough of them are known."""
        own, usual = self.means if len(self.cosines) >= ENOUGH else (0.0, 0.0)
        return usual - own

    @property
    def agrees_less(self) -> bool:
        """Whether it agrees far less than is usual; of one that is doubted for that, still much less."""
        if len(self.cosines) < ENOUGH:
            return False
        own, usual = self.means
        error = statistics.stdev(one - other for one, other in self.cosines) / sqrt(len(self.cosines))
        if LESS in self.doubts:
            return own <= TRUSTED_PART * usual and usual - own >= TRUST * error
        return usual >= LEAST and own <= PART * usual and usual - own >= max(LEAST, DOUBT * error)

    @property
    def means(self) -> tuple[float, float]:
        own, usual = (statistics.fmean(each) for each in zip(*self.cosines, strict=True))
        return own, usual


class Probation:
    """Follows headers and audits, by peer: a new session changes nothing."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    @property
    def users(self) -> frozenset[str]:
        """Those that are on probation now."""
        return frozenset(one.user for one in self._known.values() if one.doubts and one.user)

    def after_step(self, header: Header) -> list[Doubt]:
        """Take in how loud the members of a step were."""
        loud = loudness(header)
        senders = [one for one in header.members if one.buffers]
        for member in senders:
            self._of(member.session, header).loud.append(loud.get(member.session, 1.0))
        self._known = {peer: one for peer, one in self._known.items() if header.step - one.seen < FORGET}
        return self._doubts(header, senders)

    def after_audit(
        self, header: Header, agreement: Sequence[tuple[str, float]], users: Mapping[str, str]
    ) -> list[Doubt]:
        """Take in how much the members of a step agreed in a chunk.

        Args:
            agreement: the cosine of each sender with the others.
            users: by session, as their passes say.
        """
        members = {one.session: one for one in header.members}
        found = compared(agreement, {one.session: one.weight for one in header.members})
        for session, (own, usual) in found.items():
            known = self._of(session, header)
            known.user = users.get(session, known.user)
            known.cosines.append((own, usual))
        return self._doubts(header, [members[session] for session in found])

    def _of(self, session: str, header: Header) -> _Known:
        known = self._known.setdefault(peer_of(session), _Known())
        known.seen = max(known.seen, header.step)
        return known

    def _doubts(self, header: Header, members: Sequence[Member]) -> list[Doubt]:
        """Those of these members that are new.

        No user is doubted who has no more than the cap, as nothing would change; nor for agreeing less if
        another, who is not doubted yet, does so twice as much: a liar among the others makes honest ones point away
        from them, but less. After each that is doubted for it the others are followed anew.
        """
        brought: Counter[str] = Counter()
        for member in header.members:
            brought[self._user(member)] += member.weight
        least = PROBATION * brought.total()
        known = {one.session: self._known[peer_of(one.session)] for one in members}
        worst = max((one.lag for one in known.values() if not one.doubts), default=0.0)
        found = []
        for member in members:
            one = known[member.session]
            if one.doubts:
                held = {LOUD: one.is_loud, LESS: one.agrees_less}
                one.doubts = {doubt for doubt in one.doubts if held[doubt]}
            elif one.user and brought[one.user] > least and (doubt := _doubt(one, member.session, worst)):
                found.append(doubt)
        if any(LESS in known[one.session].doubts for one in found):
            for one in self._known.values():
                if not one.doubts:
                    one.cosines.clear()
        return found

    def _user(self, member: Member) -> str:
        known = self._known.get(peer_of(member.session))
        return known.user if known is not None and known.user else member.user


def _doubt(known: _Known, session: str, worst: float) -> Doubt | None:
    if known.is_loud:
        known.doubts.add(LOUD)
        times = statistics.median_low(known.loud)
        return Doubt(known.user, session, f"sends gradients {times:.1f} times as large as its samples explain")
    if known.agrees_less and known.lag >= worst / 2:
        own, usual = known.means
        known.doubts.add(LESS)
        what = (
            f"sends gradients that agree less with the others' (cosine {own:.2f}) than those of people who bring less "
            f"do ({usual:.2f})"
        )
        return Doubt(known.user, session, what)
    return None
