"""Audits: after a step the coordinator draws a chunk, and asks its senders and its reducer for what they have signed.

The chunk is not known before the step is committed, nor whether one is drawn at all. Any peer can sum a mean again
(`averaging.reduce.reducer`), so a false mean is found, and the signatures tell who has lied.

A coordinator that reduces a part has all pieces of it, and need not ask: after each step it sees how far they agree.
"""

import hashlib
from dataclasses import dataclass
from typing import TypeAlias

from averaging.log.header import Header, HeaderKind
from averaging.protocol import credentials as signed
from averaging.protocol.actions import Audit, Observe
from averaging.protocol.contacts import Contacts
from averaging.protocol.messages import ShownAccount, ShownPiece, WantProof
from averaging.protocol.rounds.reliability import MOST, Patience
from averaging.protocol.session import Session

SHARE = 1 / 20  # of the pieces that are sent, which are shown once more: some 2.5 % of a peer's traffic
ANSWERS = 20.0  # seconds for them


_Answer: TypeAlias = tuple[str, ShownPiece | ShownAccount]  # with the session that has to give it


@dataclass
class _Open:
    """An audit that waits for answers."""

    action: Audit
    account: _Answer
    asked: int  # answers
    missing: set[_Answer]
    until: float


class Auditing:
    """Audits of a coordinator, one at a time, and a member's answers to them."""

    def __init__(self, session: Session, contacts: Contacts, patience: Patience):
        self._session, self._contacts, self._patience = session, contacts, patience
        self._open: _Open | None = None

    # -- the coordinator's side

    def committed(self, header: Header, now: float) -> None:
        """A step is decided: compare pieces of this peer's part, and perhaps have a chunk of another part shown.

        Not if this peer was no member of its round, and is only catching up: nobody keeps pieces for so long.
        """
        me, settings = self._session.me, self._session.settings
        takes_part = any(one.session == me.session for one in header.members)
        if not (me.is_coordinator and takes_part and header.kind is HeaderKind.UPDATE) or settings.robust == "off":
            return
        known = ((one.session, self._contacts.get(one.session)) for one in header.members)
        users = tuple((session, contact.user) for session, contact in known if contact is not None)
        self._session.act(Observe(header, users))
        chunk = self._drawn(header) if self._open is None else None
        if chunk is None or (reducer := reducer_of(header, chunk)) == me.session:
            return
        name, senders = (header.previous, header.ballot, chunk), senders_of(header, chunk)
        account: _Answer = reducer, ShownAccount(*name)
        missing = {account, *((sender, ShownPiece(*name)) for sender in senders)}
        self._open = _Open(Audit(header, chunk, users), account, len(missing), missing, now + ANSWERS)
        for session in sorted({reducer, *senders}):
            self._session.send(session, WantProof(*name))

    def _drawn(self, header: Header) -> int | None:
        """A chunk, or none in this step: in small models one chunk is much of the vector."""
        chunks = len(header.chunks)
        secret = self._session.credentials.sign(signed.draw(header))
        lot = hashlib.sha256(secret + header.digest.encode()).digest()
        if int.from_bytes(lot[:8], "big") >= 2**64 * SHARE * chunks:
            return None
        return int.from_bytes(lot[8:16], "big") % chunks

    def expects(self, sender: str, message: ShownPiece | ShownAccount) -> bool:
        """Whether this is of use; what was not asked for is not kept."""
        return self._open is not None and (sender, message) in self._open.missing

    def on_shown(self, sender: str, message: ShownPiece | ShownAccount, now: float) -> None:
        """The process has kept what a member has shown."""
        if self._open is not None and self.expects(sender, message):
            self._open.missing.discard((sender, message))
            self.tick(now)

    def tick(self, now: float) -> None:
        """Sum again once everything is here, or after a while: those that have shown nothing by then are named.

        A reducer that lies would show nothing, so it is not depended on for some time; but if all are silent, it is
        this peer that was away.
        """
        one = self._open
        if one is not None and (not one.missing or now >= one.until):
            if one.account in one.missing and len(one.missing) < one.asked:
                self._patience.charge(one.account[0], MOST, now)
            self._open = None
            self._session.act(one.action)

    # -- a member's side

    def on_want(self, sender: str, want: WantProof, now: float) -> None:
        """Show a coordinator what was sent and summed, as far as the process has it. Others get no answer."""
        if self._contacts.is_coordinator(sender):
            self._session.send(sender, ShownPiece(want.instance, want.ballot, want.chunk))
            self._session.send(sender, ShownAccount(want.instance, want.ballot, want.chunk))


def senders_of(header: Header, chunk: int) -> tuple[str, ...]:
    """Sessions whose pieces are in the mean of a chunk, in the order of the sum."""
    excluded = {one.session for one in header.exclusions if chunk in one.chunks}
    return tuple(sorted(one.session for one in header.members if one.buffers and one.session not in excluded))


def reducer_of(header: Header, chunk: int) -> str:
    """The session that has reduced a chunk."""
    first = 0
    for part in header.parts:
        first += len(part.chunks)
        if chunk < first:
            return part.reducer
    raise ValueError(f"a header of {first} chunks has no chunk {chunk}")
