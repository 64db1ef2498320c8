"""A ledger in memory, as simulated coordinators have it; that of real ones is in `coordinator/ledger/ledger.py`."""

from fractions import Fraction

from averaging.log import credit
from averaging.log.header import Header


class Ledger:
    """Contributions of a run, by header and session."""

    def __init__(self) -> None:
        self._entered: dict[str, dict[str, Fraction]] = {}  # masked tokens by header and session
        self._users: dict[str, str] = {}  # by session

    def enter(self, header: Header) -> None:
        """Credit the members of a committed header; the second time changes nothing."""
        found = list(credit.contributions(header))
        self._entered.setdefault(header.digest, {one.session: one.tokens for one in found})
        self._users.update({one.session: one.user for one in found})

    def tokens_by_user(self) -> dict[str, Fraction]:
        """Masked tokens of each user, on whatever chain."""
        totals: dict[str, Fraction] = {}
        for sessions in self._entered.values():
            for session, tokens in sessions.items():
                user = self._users[session]
                totals[user] = totals.get(user, Fraction(0)) + tokens
        return totals

    def of_header(self, digest: str) -> dict[str, Fraction]:
        """Masked tokens of each session for one header."""
        return dict(self._entered.get(digest, {}))
