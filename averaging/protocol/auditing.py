"""Audits: after a step the coordinator draws a chunk, and asks its senders and its reducer for what they have signed.

The chunk is not known before the step is committed, nor whether one is drawn at all. Any peer can sum a mean again
(`averaging.reduce.reducer`), so a false mean is found, and the signatures tell who has lied.

A coordinator that reduces a part has all pieces of it, and need not ask: after each step it sees how far they agree.
"""

import hashlib
from dataclasses import dataclass, field

from averaging.log.header import Ballot, Header, HeaderKind
from averaging.protocol import credentials as signed
from averaging.protocol.actions import Audit, Observe
from averaging.protocol.contacts import Contacts
from averaging.protocol.messages import ShownAccount, ShownPiece, WantProof
from averaging.protocol.rounds.reliability import MOST, Patience
from averaging.protocol.session import Session

SHARE = 1 / 20  # of the pieces that are sent, which are shown once more: some 2.5 % of a peer's traffic
ANSWERS = 20.0  # seconds for them


@dataclass
class _Open:
    """An audit that waits for answers."""

    action: Audit
    want: WantProof
    reducer: str
    until: float
    senders: set[str] = field(default_factory=set)  # that have not shown their pieces
    has_account: bool = False


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
        want = WantProof(header.previous, header.ballot, chunk)
        senders = set(senders_of(header, chunk))
        self._open = _Open(Audit(header, chunk, users), want, reducer, now + ANSWERS, senders)
        for session in sorted(senders | {reducer}):
            self._session.send(session, want)

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
        one = self._open
        if one is None or (message.instance, message.ballot, message.chunk) != _name(one.want):
            return False
        if isinstance(message, ShownAccount):
            return sender == one.reducer and not one.has_account
        return sender in one.senders

    def on_shown(self, sender: str, message: ShownPiece | ShownAccount, now: float) -> None:
        """The process has kept what a member has shown."""
        if self._open is None or not self.expects(sender, message):
            return
        if isinstance(message, ShownAccount):
            self._open.has_account = True
        else:
            self._open.senders.discard(sender)
        self.tick(now)

    def tick(self, now: float) -> None:
        """Sum again once everything is here, or after a while: those that have shown nothing by then are named.

        A reducer that lies would show nothing, so it is not depended on for some time; but if all are silent, it is
        this peer that was away.
        """
        one = self._open
        if one is not None and ((one.has_account and not one.senders) or now >= one.until):
            if not one.has_account and len(one.senders) < len(senders_of(one.action.header, one.action.chunk)):
                self._patience.charge(one.reducer, MOST, now)
            self._open = None
            self._session.act(one.action)

    # -- a member's side

    def on_want(self, sender: str, want: WantProof, now: float) -> None:
        """Show a coordinator what was sent and summed, as far as the process has it. Others get no answer."""
        if self._contacts.is_coordinator(sender):
            self._session.send(sender, ShownPiece(*_name(want)))
            self._session.send(sender, ShownAccount(*_name(want)))


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


def _name(one: WantProof) -> tuple[str, Ballot, int]:
    return one.instance, one.ballot, one.chunk
