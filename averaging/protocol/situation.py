"""What a convener knows when it begins a ballot."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from averaging.log.header import Ballot, Header, SnapshotName
from averaging.protocol.credentials import Credentials
from averaging.protocol.messages import Contact, Goodbye


@dataclass(frozen=True)
class Situation:
    """Of one ballot; contacts and goodbyes go on changing."""

    me: Contact
    ballot: Ballot
    previous: Header
    recent: Sequence[Header]  # the last ones, for the choice of voters
    contacts: Mapping[str, Contact]
    known: Callable[[str], Contact | None]  # those that are not listed now, too
    goodbyes: Mapping[str, Goodbye]
    awaited: frozenset[str]  # peers for which the meeting stays open
    snapshot: SnapshotName | None  # the newest that there is
    rollback: str | None  # digest of the snapshot that the authority wants back
    objection: Callable[[Header], str]  # to a header that others say to have accepted; empty: there is none
    evidence: Callable[[Header], tuple[Contact, ...]]  # of sessions to which a header gives power
    may_reset: bool  # the quorum has been missing for so long that the coordinator may name new voters
    credentials: Credentials

    def contact(self, session: str) -> Contact:
        """A peer, as far as the convener knows it."""
        return self.known(session) or Contact(session, user=session, reachable=False)
