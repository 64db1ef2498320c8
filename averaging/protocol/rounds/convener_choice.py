"""Which session leads the next step.

The coordinator does. After `absence` seconds without a message of a convener, or without a commit although the batch is
there, voters take over: the last acting convener at once, then the reachable ones in the order of a hash, one every
`succession` seconds. One that only says to convene is heard for `word` seconds. Two conveners at a time cost time and
nothing else; their ballots decide.
"""

import functools
import hashlib
import math
from collections.abc import Mapping

from averaging.log.header import Ballot, Header, peer_of
from averaging.protocol.messages import Contact
from averaging.protocol.rounds.reliability import MOST, TRUSTED, Patience
from averaging.protocol.settings import Timeouts


class ConvenerChoice:
    """One peer's view of which session leads."""

    def __init__(self, me: Contact, timeouts: Timeouts, patience: Patience, now: float):
        self._me, self._timeouts, self._patience = me, timeouts, patience
        self.can_convene = True  # False while a coordinator's disk takes nothing
        self._coordinator_heard = self._word_at = now
        self._convener = ""  # session that was heard last
        self._full_since = math.inf
        self._moved_at = -math.inf  # when a piece or a mean of the open round has come
        self._leaves_it_until = -math.inf  # to another convener's open ballot
        self._trusted_word_at = now  # of the coordinator, of a convener that is trusted, or of this peer as one
        self._other: tuple[Ballot, float] | None = None  # the open ballot of a convener, and when it began
        self._said: dict[str, float] = {}  # by session that says to convene this step, since when
        self._lapsed: set[str] = set()  # peers that said so for too long, and have not convened since

    def new_step(self) -> None:
        """A header was applied: the batch is empty again."""
        self._full_since = math.inf
        self._moved_at = self._leaves_it_until = -math.inf
        self._said = {}

    def heard(self, contact: Contact, gathered_all: bool, now: float) -> None:
        """A convener of the present step has spoken."""
        if contact.is_coordinator:
            self._lapsed.clear()
        elif now >= self._said.setdefault(contact.session, now) + self._timeouts.word:
            self._lapsed.add(peer_of(contact.session))
        if peer_of(contact.session) in self._lapsed:
            return  # or one that convenes nothing would keep all others from it
        self._word_at = now
        if contact.is_coordinator or self._patience.trusts(contact.session, now):
            self._trusted_word_at = now
        if contact.is_coordinator:
            self._coordinator_heard = now
        if contact.session != self._convener and not contact.is_coordinator:
            self._full_since = math.inf  # it gets the time that its predecessor had
        self._convener = contact.session
        if gathered_all:
            self.batch_is_full(now)
        else:
            self.batch_is_not_full()

    def speaks(self, now: float) -> None:
        """This peer says that it convenes."""
        self._trusted_word_at = now

    def batch_is_full(self, now: float) -> None:
        """This peer has found so itself."""
        self._full_since = min(self._full_since, now)

    def batch_is_not_full(self) -> None:
        """Peers have brought less than they had reported."""
        self._full_since = math.inf

    def round_moves(self, now: float) -> None:
        """Pieces or means of the open round have come: the convener is at work, however thin its members' lines."""
        self._moved_at = now

    @property
    def _stalled_since(self) -> float:
        """Since when the batch has been full, and nothing has moved; infinite if it is not full."""
        if self._full_since == math.inf:
            return math.inf
        return max(self._full_since, min(self._moved_at, self._full_since + self._timeouts.round))

    def accepts(self, convener: str, *, is_coordinator: bool, now: float) -> bool:
        """Whether to take part in another's ballot.

        Those of a convener that has ended too few are left alone, unless all others are silent or come to no end. To
        promise nothing is always safe.
        """
        if is_coordinator or self._patience.trusts(convener, now):
            return True
        return now >= min(self._trusted_word_at, self._stalled_since) + 2 * self._timeouts.absence

    def other_ballot(self, ballot: Ballot, *, is_coordinator: bool, now: float) -> None:
        """Another convener has opened a ballot: let it end. Being asked for the same one again changes nothing."""
        if self._other is None or self._other[0] != ballot:
            self._is_over(now)
            self._other = None if is_coordinator else (ballot, now)
            self._leaves_it_until = now + self._timeouts.ballot / 2

    def decided(self, ballot: Ballot, first: Ballot, now: float) -> None:
        """A header was committed in this ballot, and proposed in `first` before all others."""
        if ballot == first:  # to propose again what others have made is no work
            self._lapsed.discard(peer_of(ballot.convener))
        if self._other is not None and self._other[0].convener != ballot.convener:
            self._is_over(now)
        self._other = None

    def _is_over(self, now: float) -> None:
        """The ballot that was open has decided nothing: its convener has made this peer wait.

        Who takes over for a good reason may fail, too: one such ballot alone loses nobody's trust.
        """
        if self._other is not None:
            ballot, began = self._other
            self._patience.charge(ballot.convener, min(now - began, MOST - TRUSTED), now)

    def leads(self, tip: Header, contacts: Mapping[str, Contact], now: float) -> bool:
        """Whether this peer is to convene the header after `tip`."""
        if now < self._leaves_it_until or not self.can_convene or not self._me.reachable:
            return False
        if self._me.is_coordinator:
            return True
        if now < min(self._coordinator_heard, self._stalled_since) + self._timeouts.absence:
            return False
        if self._me.session not in tip.voters:
            return False
        if tip.ballot.convener == self._me.session:
            return now >= self._coordinator_heard + self._timeouts.absence or self.is_stalled(now)
        rank = succession(tip, {**contacts, self._me.session: self._me}).index(self._me.session)
        silent = now >= self._word_at + self._timeouts.absence + rank * self._timeouts.succession
        return silent or self.is_stalled(now, rank)

    def is_stalled(self, now: float, rank: int = 0) -> bool:
        """Whether the batch has been full for so long that another peer should convene: the successor of this rank."""
        return now >= self._stalled_since + self._timeouts.absence + rank * self._timeouts.succession

    def report_to(self, tip: Header | None, contacts: Mapping[str, Contact], now: float) -> list[str]:
        """The sessions to tell what this peer has: the convener; while it is silent, those that may be or become it.

        And always a coordinator, since any peer may say that it convenes.
        """
        known = [self._convener] if self._convener in contacts else []
        found = known + [session for session, contact in contacts.items() if contact.is_coordinator]
        if not known or now >= self._word_at + 3 * self._timeouts.report:
            reachable = [session for session, contact in contacts.items() if contact.reachable]
            found += succession(tip, contacts) if tip else reachable
        return [session for session in dict.fromkeys(found) if session != self._me.session]


def succession(tip: Header, contacts: Mapping[str, Contact]) -> list[str]:
    """The sessions that may take over, in their order; pure, so that all peers agree on it."""
    voters = [voter for voter in tip.voters if voter in contacts and contacts[voter].reachable]
    return sorted(voters, key=lambda session: (session != tip.ballot.convener, _drawn(session, tip.digest)))


@functools.lru_cache(maxsize=1024)
def _drawn(session: str, digest: str) -> bytes:
    return hashlib.sha256(f"{session} {digest}".encode()).digest()
