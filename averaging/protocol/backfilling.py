"""The headers that a coordinator has missed: their members have credit, however long it was away.

A coordinator that loads a snapshot has a gap between the headers that it had and those that came with the snapshot. It
fills the gap backwards: each header names the one before it by digest, so that any peer may give it.
"""

from collections.abc import Iterable

from averaging.log.header import Entry
from averaging.protocol.actions import Credit
from averaging.protocol.contacts import Contacts
from averaging.protocol.held_log import HeldLog
from averaging.protocol.messages import Headers, WantHeaders
from averaging.protocol.session import Session

MOST_HEADERS = 64  # in an answer


class Backfilling:
    """Of one peer. Peers other than the coordinator only answer."""

    def __init__(self, session: Session, contacts: Contacts, log: HeldLog):
        self._send, self._act, self._timing = session.send, session.act, session.timing
        self._contacts, self._log = contacts, log
        self._known: dict[str, Entry] = {}  # by digest; this peer had them before it has loaded a snapshot
        self._asked_at = -1e9
        self._asked = 0  # times

    def had(self, entries: Iterable[Entry]) -> None:
        """The peer has these headers, which may be of the chain; they are credited already."""
        if self._contacts.me.is_coordinator:
            self._known.update({entry.header.digest: entry for entry in entries})

    @property
    def others(self) -> list[Entry]:
        """The headers that the peer had, as far as they are not known to be of the chain; oldest first."""
        return sorted(self._known.values(), key=lambda entry: entry.header.step)

    def loaded(self) -> None:
        """The chain begins at a snapshot now: what comes with it may be new."""
        chain = self._log.chain
        assert chain is not None
        new = [entry for entry in chain.since(0) if entry.header.digest not in self._known]
        if self._contacts.me.is_coordinator and new:
            self._act(Credit(tuple(new)))
        self._join()

    def _join(self) -> None:
        """Put what the peer had before the oldest header of the chain, if it leads there."""
        chain = self._log.chain
        assert chain is not None
        found: list[Entry] = []
        digest = chain.oldest.previous
        while digest in self._known:
            found.append(self._known[digest])
            digest = found[-1].header.previous
        chain.prepend(found[::-1])
        if not digest:
            self._known.clear()

    def tick(self, now: float) -> None:
        """Ask the next peer for what is missing."""
        chain = self._log.chain
        if chain is None or not self._contacts.me.is_coordinator or not chain.oldest.previous:
            return
        if now >= self._asked_at + self._timing.fetch and self._contacts.others:
            sessions = sorted(self._contacts.others)
            self._send(sessions[self._asked % len(sessions)], WantHeaders(chain.oldest.step - 1, chain.oldest.previous))
            self._asked, self._asked_at = self._asked + 1, now

    def on_want_headers(self, sender: str, want: WantHeaders, now: float) -> None:
        """A coordinator asks."""
        chain = self._log.chain
        found = chain.until(want.step, want.digest, MOST_HEADERS) if chain is not None else []
        if found:
            self._send(sender, Headers(tuple(found)))

    def on_headers(self, sender: str, headers: Headers, now: float) -> None:
        """An answer, of which only what leads to the chain is taken."""
        chain = self._log.chain
        if chain is None or not self._contacts.me.is_coordinator:
            return
        found: list[Entry] = []
        digest = chain.oldest.previous
        for entry in reversed(headers.entries):
            if entry.header.digest != digest or digest in self._known:
                break
            found.append(entry)
            digest = entry.header.previous
        if found:
            chain.prepend(found[::-1])
            self._act(Credit(tuple(found[::-1])))
            self._join()
            self._asked_at = -1e9  # go on at once
