"""Which log of another peer is believed.

An entry is the run's if its certificate shows signed votes of voters that the header before it names. So a log needs
one header to begin from, its *anchor*: one that this peer has applied itself, or one that the authority has signed. The
coordinator signs each head that it applies, with its newest snapshot; others pass on the newest one of their chain, and
tell the log from there on, or from where the reader's chain parts from theirs. Signed votes, 2.7 KB for nine voters,
are cheaper than a second agreement about heads.

Where the coordinator has been away for so long that others have dropped the newest anchor, the log counts that most
users agree on, of at least three. A coordinator that comes back with an old chain may find fewer; then all of them must
agree, for a minute.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from averaging.log.chain import Chain
from averaging.log.header import Entry, Head, Header, extends, supersedes
from averaging.protocol import credentials as signed
from averaging.protocol.commit.quorum import is_committed
from averaging.protocol.contacts import Contacts
from averaging.protocol.credentials import Credentials
from averaging.protocol.messages import Anchor, Log

ENOUGH = 3  # users
REMEMBERED = 60.0  # seconds for which an anchor, a log without one, or a part counts after it was heard of last


@dataclass(frozen=True)
class Proof:
    """The part of a log that is proved already, where it is too long for one answer."""

    first: Header  # of the run for sure, from which it began
    last: Header


class Trust:
    """Decides which logs to believe."""

    def __init__(self, contacts: Contacts, run: str, credentials: Credentials):
        self._contacts, self._run, self._credentials = contacts, run, credentials
        self.anchor: Anchor | None = None  # the newest one that others tell
        self.proof: Proof | None = None  # of a log that is told part by part
        self._heard_at = self._proven_at = 0.0
        self._told: dict[str, tuple[frozenset[str], float]] = {}  # headers of logs without an anchor, by user
        self._since: float | None = None  # when the first of them came

    def heard(self, anchor: Anchor | None, now: float) -> bool:
        """Take in an anchor; whether it is one."""
        if self.anchor is not None and now >= self._heard_at + REMEMBERED:
            self.anchor = None  # all that had it have gone
        if self.proof is not None and now >= self._proven_at + REMEMBERED:
            self.proof = None  # all that had the rest of that log have gone
        if anchor is None:
            return False
        if anchor == self.anchor:
            self._heard_at = now
            return True
        if not signed.is_anchor(anchor, self._credentials):
            return False
        if self.anchor is None or supersedes(anchor.head, self.anchor.head):
            self.anchor, self._heard_at = anchor, now
        return True

    @property
    def known(self) -> Head | None:
        """The newest head that is the run's for sure, whether this peer has its state or not."""
        if self.proof is not None:
            return self.proof.last.head
        return self.anchor.head if self.anchor is not None else None

    def follows(self, previous: Header, entry: Entry) -> bool:
        """Whether an entry is the one after a header of the run."""
        return is_committed(previous, entry, self._credentials)

    def believes(self, session: str, log: Log, chain: Chain | None, now: float) -> bool:
        """Whether this is the run's log, as far as a peer with this chain can know.

        Of a part of a log it says whether it follows from what is known; the last one decides about the whole.
        """
        entries = log.entries
        if not _is_whole(log, self._run):
            return False
        told = log.anchor if self.heard(log.anchor, now) else None
        if log.snapshot is not None and not _is_named(log, told, self.anchor):
            return False
        previous = chain.tip if chain is not None and entries[0].header.previous == chain.tip.digest else None
        at = self._anchored(log, chain, told)
        if at is None and previous is None:
            return log.snapshot is not None and self._agreed(session, log, log.snapshot.step, chain is not None, now)
        self._since, self._told = None, {}
        follows = entries if at is None else entries[at + 1 :]
        first = previous if at is None else entries[at].header
        assert first is not None
        if not self._all_follow(first, follows):
            return False
        proof = self.proof if self.proof is not None and first == self.proof.last else None  # that it goes on from
        if proof is not None:
            first = proof.first
        tip = entries[-1].header
        is_before_anchor = log.goes_on and self.anchor is not None and tip.step < self.anchor.head.step
        is_next = log.snapshot is None and not log.goes_on
        believed = is_next or is_before_anchor or self._contains_anchor(first, tip)
        if believed and log.goes_on:
            self.proof, self._proven_at = Proof(first, tip), now
        elif believed or proof is not None:
            self.proof = None
        return believed

    def _all_follow(self, first: Header, entries: Sequence[Entry]) -> bool:
        pairs = zip((first, *(one.header for one in entries)), entries, strict=False)
        return all(self.follows(previous, entry) for previous, entry in pairs)

    def _anchored(self, log: Log, chain: Chain | None, told: Anchor | None) -> int | None:
        """The newest of the log's entries that is known to be the run's."""
        known = {one.head.digest for one in (told, self.anchor) if one is not None}
        known |= {self.proof.last.digest} if self.proof is not None else set()

        def is_anchor(header: Header) -> bool:
            own = chain.at(header.step) if chain is not None else None
            return header.digest in known or (own is not None and own.header.digest == header.digest)

        return next((at for at in reversed(range(len(log.entries))) if is_anchor(log.entries[at].header)), None)

    def _contains_anchor(self, first: Header, tip: Header) -> bool:
        """Whether a log goes on from the newest anchor, or was voted for where the chain of that one was reset."""
        if self.anchor is None or first.step >= self.anchor.head.step:
            return True
        return supersedes(tip.head, self.anchor.head) and not extends(tip.head, self.anchor.head)

    def _agreed(self, session: str, log: Log, step: int, has_chain: bool, now: float) -> bool:
        """Whether most users tell the same header of a step."""
        contact = self._contacts.get(session)
        if contact is None or not self._all_follow(log.entries[0].header, log.entries[1:]):
            return False
        self._told = {user: one for user, one in self._told.items() if now < one[1] + REMEMBERED}
        self._told[contact.user] = frozenset(entry.header.digest for entry in log.entries), now
        base = log.entries[step - log.entries[0].header.step].header.digest
        agree = sum(base in digests for digests, _ in self._told.values())
        if len(self._told) >= ENOUGH:
            return 2 * agree > len(self._told)
        if not (self._contacts.me.is_coordinator and has_chain):
            return False
        if self._since is None:
            self._since = now
        users = {one.user for one in self._contacts.others.values()} - {self._contacts.me.user}
        return now >= self._since + REMEMBERED and agree == len(self._told) and users <= self._told.keys()


def _is_whole(log: Log, run: str) -> bool:
    """Whether entries of this run follow each other, and the one of the snapshot is among them."""
    headers = [entry.header for entry in log.entries]
    is_chain = all(
        (after.step, after.previous) == (before.step + 1, before.digest)
        for before, after in itertools.pairwise(headers)
    )
    has_base = log.snapshot is None or headers[0].step <= log.snapshot.step <= headers[-1].step
    return is_chain and has_base and headers[0].run == run


def _is_named(log: Log, *anchors: Anchor | None) -> bool:
    """Whether a header, or the authority, says that this is the snapshot of that step."""
    named = [entry.header.snapshot for entry in log.entries if log.snapshot and entry.header.step >= log.snapshot.step]
    return log.snapshot in [*named, *(one.snapshot for one in anchors if one is not None)]
