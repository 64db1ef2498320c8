"""The other peers of a run: those that the DHT lists, and those that have said goodbye."""

from collections.abc import Iterable

from averaging.log.header import Header, peer_of
from averaging.protocol.credentials import Credentials
from averaging.protocol.messages import Accepted, Commit, Contact, Goodbye, Propose

MOST_KNOWN = 10_000  # sessions
MOST_SHOWN = 64  # contacts in a message
MOST_GOODBYES = 32  # of one peer's sessions
LONGEST_ACCEPTED = 256 * 2**10  # bytes of a header that a goodbye may bring
FURTHEST = 1000  # steps by which a session may say that it was ahead when it left


class Contacts:
    """What one peer knows of the sessions of others.

    One that has said goodbye does not come back, though the DHT lists it for a while; but of one peer only so many
    goodbyes are remembered.
    """

    def __init__(self, me: Contact, credentials: Credentials):
        self.me, self._credentials = me, credentials
        self.others: dict[str, Contact] = {}  # by session
        self.goodbyes: dict[str, Goodbye] = {}  # by session
        self._listed: set[str] = set()  # sessions, those that have left included
        self._known = {me.session: me}  # the last ones that were listed, or that others have shown

    def listed(self, contacts: Iterable[Contact]) -> None:
        """The peers that the DHT lists now."""
        contacts = list(contacts)
        self._listed = {one.session for one in contacts}
        self.others = {
            one.session: one for one in contacts if one.session != self.me.session and one.session not in self.goodbyes
        }
        self._know(self.others.values())

    def get(self, session: str) -> Contact | None:
        """This peer, or another that there is or was."""
        return self._known.get(session)

    def is_coordinator(self, session: str) -> bool:
        """Whether this session is known to be a coordinator."""
        contact = self.get(session)
        return contact is not None and contact.is_coordinator

    def learn_of(self, shown: Accepted | Propose | Commit | None) -> None:
        """Take in contacts that another peer shows, as far as their sessions have signed them."""
        if shown is not None:
            new = [contact for contact in shown.contacts if contact.session not in self._known]
            self._know(contact for contact in new if self._credentials.admits(contact))

    def evidence(self, header: Header) -> tuple[Contact, ...]:
        """For peers that do not know the sessions to which a header gives power."""
        sessions = dict.fromkeys((*header.voters, header.tie_breaker, header.ballot.convener))
        return tuple(self._known[session] for session in sessions if session in self._known)

    def of_those_gone(self, sessions: Iterable[str]) -> tuple[Contact, ...]:
        """Of these sessions, for a peer that has begun since they were listed last."""
        gone = [one for one in sessions if one in self._known and one not in self.others and one != self.me.session]
        return tuple(self._known[session] for session in gone[:MOST_SHOWN])

    def _know(self, contacts: Iterable[Contact]) -> None:
        self._known.update({contact.session: contact for contact in contacts})
        for session in list(self._known)[1:-MOST_KNOWN]:  # the first one is this peer
            del self._known[session]

    def has_left(self, goodbye: Goodbye) -> None:
        """A session has said goodbye. One that is not known is no voter."""
        session, accepted = goodbye.farewell.session, goodbye.accepted
        is_short = accepted is None or len(accepted.header.encoded) <= LONGEST_ACCEPTED
        if session in self._known and is_short:
            self.goodbyes[session] = goodbye
            self.others.pop(session, None)
            of_this_peer = [one for one in self.goodbyes if peer_of(one) == peer_of(session)]
            for oldest in of_this_peer[:-MOST_GOODBYES]:
                del self.goodbyes[oldest]

    def forget_goodbyes(self, tip: Header) -> None:
        """Drop those that no ballot after `tip` can count.

        Voters are members, and a session was a member last of the header after the one at which it left. So if that
        header is there and does not name it as a voter, none does. To forget a goodbye is safe in any case: it makes
        quorums larger.
        """
        for session, goodbye in list(self.goodbyes.items()):
            counts = session in tip.voters or tip.step <= goodbye.farewell.step <= tip.step + FURTHEST
            if session not in self._known or not (counts or session in self._listed):
                del self.goodbyes[session]
