"""Users whose gradients may be useless: means leave them out until their gradients are useful again.

Two things speak against a user: a peer of theirs does not agree with the others where people do who bring less, step
after step; or its gradients are louder than its weight explains, as those of far fewer samples are. Neither proves
anything, so the user is not banned: it goes on sending, and is looked at. A small share would not protect the run. Adam
and Muon take steps of the same size whatever the size of a gradient, so where honest gradients are near zero, as for
rare tokens, noise with 2 % of a mean does the harm of noise with 15 %.

Gradients of an unusual text agree less, but they agree. Those for the wrong words do, too, while a run begins and while
a mean leaves them out, as they teach which words are common. So what begins a doubt is that they agree next to not at
all, and what ends it is that they agree as those of others do. Two lies show sooner. The cosines of noise with the
others are zero, however high those of others are in the same steps. Those of gradients that are turned around are
below zero, look after look. A few of them have most of the size, so their ranks are added up (Wilcoxon 1945).
"""

import statistics
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import copysign, inf, sqrt

from averaging.log.header import Header, Member, peer_of
from averaging.reduce.agreement import Agreement
from coordinator.ledger.audits.worth import compared

LOOKS = 24  # at a peer, the last ones
ENOUGH_OF_NOISE, ENOUGH, ENOUGH_LOUD = 5, 10, 20  # looks, to see that it sends noise, agrees less, is loud
SURELY_AGAINST = 2.5  # standard deviations of the sum of signed ranks, below zero; it takes eight looks at least
DOUBT = 3.0  # times the error of its mean, that it is below the usual one
LEAST = 0.03  # below the usual one, too, and above zero of that: among honest ones a loud liar makes it negative
PART = 0.1  # of the usual one, that its own is at most: honest ones differ by their text
LOUD_FROM, LOUD_UNTIL = 1.6, 1.3  # loudness; a text of one's own is at up to 1.5 while a run begins
LOUD, LESS = "loud", "less"  # kinds of doubt
SMALL = 0.05  # share of all weight up to which no user is doubted: gradients of few samples agree with nothing
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
    cosines: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=LOOKS))  # its own, the usual one
    loudness: deque[float] = field(default_factory=lambda: deque(maxlen=LOOKS))
    seen: int = 0  # global step
    doubts: set[str] = field(default_factory=set)  # those of LOUD and LESS that hold

    @property
    def is_loud(self) -> bool:
        """Whether it mostly is; of one that is doubted for that, still nearly as much."""
        bound = LOUD_UNTIL if LOUD in self.doubts else LOUD_FROM
        return len(self.loudness) >= ENOUGH_LOUD and statistics.median_low(self.loudness) >= bound

    @property
    def lag(self) -> float:
        """By how much its cosine is below the usual one, once enough of them are known."""
        own, usual = self.means if len(self.cosines) >= ENOUGH_OF_NOISE else (0.0, 0.0)
        return usual - own

    @property
    def agrees_less(self) -> bool:
        """Whether it agrees next to not at all where others do; of one that is doubted for that, less than is usual."""
        if len(self.cosines) < ENOUGH_OF_NOISE:
            return False
        own, usual = self.means
        if LESS in self.doubts:
            return own < usual
        if self.is_noise or self.is_against:
            return True
        error = statistics.stdev(one - other for one, other in self.cosines) / sqrt(len(self.cosines))
        is_less = usual >= LEAST and own <= PART * usual and usual - own >= max(LEAST, DOUBT * error)
        return is_less and len(self.cosines) >= ENOUGH

    @property
    def is_noise(self) -> bool:
        """Whether its cosines have nothing to do with the usual ones: the slope over them is zero, and surely so.

        Below zero is another matter: a liar among the others makes honest gradients point away from them.
        """
        if self.means[1] < LEAST:
            return False
        squares = sum(usual * usual for _, usual in self.cosines)
        slope = sum(own * usual for own, usual in self.cosines) / squares  # of the line through the origin
        residues = sum((own - slope * usual) ** 2 for own, usual in self.cosines)
        error = sqrt(residues / (len(self.cosines) - 1) / squares)
        return abs(slope) + DOUBT * error <= PART

    @property
    def is_against(self) -> bool:
        """Whether its cosines are below zero, by `LEAST` in the mean, and surely so."""
        own = sorted((one for one, _ in self.cosines), key=abs)
        count, ranks = len(own), sum(copysign(rank, one) for rank, one in enumerate(own, 1))
        deviation = sqrt(count * (count + 1) * (2 * count + 1) / 6)
        return statistics.fmean(own) <= -LEAST and ranks <= -SURELY_AGAINST * deviation

    @property
    def means(self) -> tuple[float, float]:
        own, usual = (statistics.fmean(each) for each in zip(*self.cosines, strict=True))
        return own, usual


class Probation:
    """By what audits show and, apart, by what a part shows that the coordinator reduces.

    A liar knows that part: honest gradients there are to hide nothing.

    Args:
        users: who are on probation already, until enough is seen to say so again, or not.
    """

    def __init__(self, users: Collection[str] = ()) -> None:
        self._of_audits, self._of_own_part = _Looks(), _Looks()
        self._before, self._began = set(users), inf  # `_began`: the first global step that it was told of

    @property
    def users(self) -> frozenset[str]:
        """Those that are on probation now."""
        return self._of_audits.users | self._of_own_part.users | self._before

    def take_in(
        self, header: Header, agreement: Sequence[Agreement], users: Mapping[str, str], *, of_own_part: bool = False
    ) -> list[Doubt]:
        """Take in how far the members of a step agree; returns who is doubted now and was not before.

        Args:
            agreement: of each sender with the others.
            users: by session, as their passes say.
            of_own_part: the coordinator has reduced that part; else it has audited.
        """
        before = self.users
        looks = self._of_own_part if of_own_part else self._of_audits
        doubts = looks.take_in(header, agreement, users)
        self._before = {user for user in self._before if not self._is_judged(user)}
        self.passed(header.step)
        return [one for one in doubts if one.user not in before]

    def passed(self, step: int) -> None:
        """A global step is over, whether anything was seen in it or not: forget who has not been seen for long."""
        self._began = min(self._began, step)
        if step - self._began >= FORGET:
            self._before.clear()
        for looks in (self._of_audits, self._of_own_part):
            looks.forget(step)

    def _is_judged(self, user: str) -> bool:
        """Whether all ways of looking that show this user have shown enough."""
        looks = [count for count in (self._of_audits.at(user), self._of_own_part.at(user)) if count]
        return bool(looks) and min(looks) >= ENOUGH_LOUD


class _Looks:
    """What one way of looking has shown of peers: a new session changes nothing."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    @property
    def users(self) -> frozenset[str]:
        return frozenset(one.user for one in self._known.values() if one.doubts and one.user)

    def at(self, user: str) -> int:
        """How many there were at that peer of the user that was seen most often, of the last ones."""
        return max((len(one.loudness) for one in self._known.values() if one.user == user), default=0)

    def forget(self, step: int) -> None:
        self._known = {peer: one for peer, one in self._known.items() if step - one.seen < FORGET}

    def take_in(self, header: Header, agreement: Sequence[Agreement], users: Mapping[str, str]) -> list[Doubt]:
        weights = {one.session: one.weight for one in header.members}
        for one in agreement:
            known = self._of(one.session, header)
            known.user = users.get(one.session, known.user)
            known.loudness.append(one.loudness)
        for session, cosines in compared(agreement, weights).items():
            self._of(session, header).cosines.append(cosines)
        return self._doubts(header, [one.session for one in agreement])

    def _of(self, session: str, header: Header) -> _Known:
        known = self._known.setdefault(peer_of(session), _Known())
        known.seen = max(known.seen, header.step)
        return known

    def _doubts(self, header: Header, sessions: Sequence[str]) -> list[Doubt]:
        """Those of these members that are new.

        A user with no more than `SMALL` of the weight is not doubted. Nor is one that agrees less if another one,
        which is not doubted yet, does so half as much again: a liar among the others makes honest ones point away from
        them, but less. Once a user is doubted for agreeing less, the others are followed anew; not for noise, which
        does not do that.
        """
        brought: Counter[str] = Counter()
        for member in header.members:
            brought[self._user(member)] += member.weight
        least = SMALL * brought.total()
        known = {session: self._known[peer_of(session)] for session in sessions}
        worst = max((one.lag for one in known.values() if not one.doubts), default=0.0)
        found = []
        for session, one in known.items():
            if one.doubts:
                held = {LOUD: one.is_loud, LESS: one.agrees_less}
                one.doubts = {doubt for doubt in one.doubts if held[doubt]}
            elif one.user and brought[one.user] > least and (doubt := _doubt(one, session, worst)):
                found.append(doubt)
        if any(LESS in one.doubts and not one.is_noise for one in (known[doubt.session] for doubt in found)):
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
        times = statistics.median_low(known.loudness)
        return Doubt(known.user, session, f"sends gradients {times:.1f} times as large as its samples explain")
    if known.agrees_less and known.lag >= worst / 1.5:
        own, usual = known.means
        known.doubts.add(LESS)
        what = (
            f"sends gradients that agree with the others' less (cosine {own:.2f}) than the gradients of people who "
            f"contribute fewer samples do ({usual:.2f})"
        )
        return Doubt(known.user, session, what)
    return None
