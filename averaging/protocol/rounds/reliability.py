"""For how long this peer waits for another: a token bucket of seconds, from what it saw itself.

What a peer makes others wait for beyond what the lines explain is taken from its seconds, which come back with time.
So one bad round changes nothing, and in the long run one peer takes some twentieth of the time of others at most. One
that has too few left is not waited for longer than the others need, and nothing depends on it, until they have come
back; that takes twice as long each time.

What a peer says about others is ignored, so a peer that lies can only lose its own seconds; a convener alone takes some
from a reducer that lacks what most users have brought to the other parts. Lateness does not count in a round in which
this peer heard nothing for some seconds: it may have been cut off, or asleep.
"""

from dataclasses import dataclass
from math import inf

from averaging.log.header import peer_of

MOST = 10.0  # seconds that a peer may make another wait at once, in all
TRUSTED = 5.0  # that it must have left to be waited for, or to be given a part, or a promise as a convener
COMES_BACK = 0.05  # seconds a second
MOST_DOUBLINGS = 4  # of the time in which they come back
SLACK = 2.0  # times what a plan says of lines: they carry less where a household shares them
ALLOWED = 1.0  # seconds; processors and distances need some, too
ALONE = 4.0  # seconds without a word of anybody; all peers report every two


def explained(seconds: float, otherwise: float) -> float:
    """For how long the lines alone may hold a round up, given what its plan says of them; 0: it says nothing.

    Never more than `otherwise`: anybody may say that its line is thin.
    """
    return min(otherwise, SLACK * seconds + ALLOWED) if seconds else otherwise


@dataclass
class _Account:
    left: float
    at: float  # this time
    falls: int = 0  # how often it was trusted no longer

    def left_at(self, now: float) -> float:
        doublings = min(max(0, self.falls - 1), MOST_DOUBLINGS)
        return min(MOST, self.left + COMES_BACK / 2**doublings * (now - self.at))


class Patience:
    """That one peer has with each of the others, by peer: a new session changes nothing."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}  # of those that have made it wait
        self._heard_at, self._alone_until = inf, -inf

    def heard(self, now: float) -> None:
        """A peer has said something, or a part of it."""
        if self._is_alone(now):
            self._alone_until = now
        self._heard_at = now

    def _is_alone(self, now: float) -> bool:
        return now >= self._heard_at + ALONE

    def left(self, session: str, now: float) -> float:
        """Seconds for which it is waited for beyond what lines explain; 0: it is not trusted."""
        account = self._accounts.get(peer_of(session))
        left = MOST if account is None else account.left_at(now)
        return left if left >= TRUSTED else 0.0

    def trusts(self, session: str, now: float) -> bool:
        """Whether others may depend on it."""
        return self.left(session, now) > 0.0

    def waited(self, session: str, seconds: float, now: float, *, since: float) -> None:
        """It was late by so much, unless that may be this peer's own fault.

        Args:
            since: when the round began, or what was waited for in it.
        """
        if not self._is_alone(now) and self._alone_until <= since:
            self.charge(session, seconds, now)

    def charge(self, session: str, seconds: float, now: float) -> None:
        """It has made this peer wait, whatever else this peer heard: it would lose nothing else by being silent."""
        if seconds <= 0.0:
            return
        self._accounts = {peer: one for peer, one in self._accounts.items() if one.left_at(now) < MOST}
        account = self._accounts.setdefault(peer_of(session), _Account(MOST, now))
        before = account.left_at(now)
        account.left, account.at = max(-MOST, before - seconds), now
        account.falls += before >= TRUSTED > account.left
