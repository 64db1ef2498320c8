"""Signatures of sessions and of the run's authority, which make statements of others count.

The transport vouches for the direct neighbour only, so whatever is passed on is signed: votes and goodbyes by their
sessions, contacts by theirs with the pass, resets, rollbacks and heads by the authority.
"""

from typing import Protocol

from msgspec.structs import replace

from averaging.log.header import Ballot, Farewell, Head, Header, SnapshotName
from averaging.log.packing import pack
from averaging.protocol.messages import Account, Anchor, Contact


class Credentials(Protocol):
    """Signs for one peer, and checks what others have signed.

    Answers never change, or honest peers would disagree: passes that have expired count here.
    """

    def introduced(self, contact: Contact) -> Contact:
        """A session of this peer, with its proof."""

    def sign(self, content: bytes) -> bytes:
        """As a session of this peer; the content names the session."""

    def verify(self, session: str, content: bytes, signature: bytes) -> bool:
        """Whether the peer of a session has signed this."""

    def authorize(self, content: bytes) -> bytes:
        """As the run's authority; empty where its key is not."""

    def is_authorized(self, content: bytes, signature: bytes) -> bool:
        """Whether the run's authority has signed this."""

    def admits(self, contact: Contact) -> bool:
        """Whether a contact is signed by its session, and its user is the one in the pass."""


# -- what is signed; each begins with what it is for, so that nothing can be taken for something else


def vote(session: str, instance: str, ballot: Ballot, digest: str) -> bytes:
    """That a voter holds all of a header and has accepted it."""
    return _content("vote", session, instance, ballot.number, ballot.convener, digest)


def piece(session: str, instance: str, ballot: Ballot, chunk: int, digest: str) -> bytes:
    """That a member has sent this to a reducer; no honest one sends two that differ."""
    return _content("piece", session, instance, ballot.number, ballot.convener, chunk, digest)


def account(session: str, instance: str, ballot: Ballot, chunk: int, one: Account) -> bytes:
    """That a reducer has summed these pieces to this mean."""
    receipts = [[receipt.session, receipt.digest] for receipt in one.receipts]
    return _content("account", session, instance, ballot.number, ballot.convener, chunk, one.mean, receipts)


def draw(one: Header) -> bytes:
    """By which a coordinator draws what it looks at after a step: nobody else can make its signature."""
    return _content("draw", one.digest)


def farewell(one: Farewell) -> bytes:
    """That a session has left."""
    promised = one.promised and [one.promised.number, one.promised.convener]
    return _content("farewell", one.session, one.instance, one.step, promised)


def contact(one: Contact) -> bytes:
    """Who a session is."""
    return _content("contact", one.session, one.user, one.reachable, one.is_coordinator)


def order(header: Header) -> bytes:
    """That a reset or a rollback may be."""
    return _content("order", replace(header, order=b"").digest)


def head(one: Head, snapshot: SnapshotName | None) -> bytes:
    """That a chain is the run's, up to this header, and a snapshot."""
    resets = [[reset.step, reset.ballot.number, reset.ballot.convener] for reset in one.resets]
    return _content("head", one.step, one.digest, resets, snapshot and [snapshot.step, snapshot.digest])


def _content(kind: str, *fields: object) -> bytes:
    return pack([f"sahaj {kind} 1", *fields])


# -- with signatures


def ordered(header: Header, credentials: Credentials) -> Header:
    """A reset or a rollback with the authority's signature."""
    return replace(header, order=credentials.authorize(order(header)))


def signed_farewell(one: Farewell, credentials: Credentials) -> Farewell:
    """The same with the signature of its session."""
    return replace(one, signature=credentials.sign(farewell(one)))


def is_farewell(one: Farewell, credentials: Credentials) -> bool:
    """Whether its session has signed it."""
    return credentials.verify(one.session, farewell(one), one.signature)


def is_anchor(anchor: Anchor, credentials: Credentials) -> bool:
    """Whether the authority has signed it."""
    return credentials.is_authorized(head(anchor.head, anchor.snapshot), anchor.signature)


def is_ordered(header: Header, credentials: Credentials) -> bool:
    """Whether the authority has signed a reset or a rollback."""
    return credentials.is_authorized(order(header), header.order)
