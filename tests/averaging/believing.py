"""Credentials for tests that are about something else: nothing is signed, and everything is believed."""

from collections.abc import Sequence

from averaging.log.header import Ballot, Certificate
from averaging.protocol.messages import Contact


class Believing:
    """See `averaging.protocol.credentials.Credentials`."""

    def introduced(self, contact: Contact) -> Contact:
        """As it is."""
        return contact

    def sign(self, content: bytes) -> bytes:
        """Nothing."""
        return b""

    def verify(self, session: str, content: bytes, signature: bytes) -> bool:
        """Always."""
        return True

    def authorize(self, content: bytes) -> bytes:
        """Nothing."""
        return b""

    def is_authorized(self, content: bytes, signature: bytes) -> bool:
        """Always."""
        return True

    def admits(self, contact: Contact) -> bool:
        """Always."""
        return True


def certified(ballot: Ballot, votes: Sequence[str]) -> Certificate:
    """These votes, whose signatures are believed; the convener's is among them."""
    return Certificate(ballot, tuple(votes), signatures=(b"",) * len(votes))
