"""What a convener knows when it begins a ballot."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from averaging.log.header import Ballot, Header, SnapshotName
from averaging.protocol.contacts import Contacts
from averaging.protocol.messages import Contact
from averaging.protocol.session import Session


@dataclass(frozen=True)
class Situation:
    """Of one ballot."""

    session: Session
    contacts: Contacts  # which go on changing
    listed: Mapping[str, Contact]  # those of them that were there when the ballot began
    objection: Callable[[Header], str]  # to a header that others say to have accepted; empty: there is none
    ballot: Ballot
    previous: Header
    recent: Sequence[Header]  # the last ones, for the choice of voters
    awaited: frozenset[str]  # peers for which the meeting stays open
    snapshot: SnapshotName | None = None  # the newest that there is
    rollback: str | None = None  # digest of the snapshot that the authority wants back
    may_reset: bool = False  # the quorum has been missing for so long that the coordinator may name new voters

    @property
    def me(self) -> Contact:
        """The convener."""
        return self.session.me

    def contact(self, session: str) -> Contact:
        """A peer, as far as the convener knows it."""
        return self.contacts.get(session) or Contact(session, user=session, reachable=False)
