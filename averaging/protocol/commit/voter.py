"""One peer's memory of a decision: what it has promised and what it has accepted (the acceptor of Paxos)."""

from averaging.log.header import Ballot, Header
from averaging.protocol.messages import Accepted


class Voter:
    """Of the decision about one header. Forgets with the process: a restarted process is another session."""

    def __init__(self, session: str, instance: str):
        self.session, self.instance = session, instance  # whose memory it is; digest of the header before
        self.promised: Ballot | None = None
        self.accepted: Accepted | None = None

    def promise(self, ballot: Ballot) -> bool:
        """Accept nothing below this ballot from now on; False if a higher one was promised."""
        if self.promised is not None and ballot < self.promised:
            return False
        self.promised = ballot
        return True

    def accept(self, ballot: Ballot, header: Header) -> bool:
        """Vote for a header, whose chunks this peer holds.

        False if a higher ballot was promised, or if its convener has proposed another header in the same one.
        """
        if self.accepted is not None and self.accepted.ballot == ballot and self.accepted.header != header:
            return False
        if not self.promise(ballot):
            return False
        self.accepted = Accepted(ballot, header)
        return True
