"""The headers that a coordinator has missed: their members have credit, however long it was away.

A coordinator that loads a snapshot has a gap between the headers that it had and those that came with the snapshot. It
fills the gap backwards: each header names the one before it by digest, so that any peer may give it.
"""

from collections.abc import Iterable
from math import inf

from averaging.log.chain import Chain
from averaging.log.header import Gap, Header, HeaderKind, shared_step
from averaging.protocol.actions import Credit
from averaging.protocol.catching_up.held_log import HeldLog, fitting
from averaging.protocol.contacts import Contacts
from averaging.protocol.messages import Headers, WantHeaders
from averaging.protocol.session import Session

MOST_HEADERS = 64  # in an answer


class Backfilling:
    """Asks for the headers of gaps, and answers. Peers other than the coordinator only answer."""

    def __init__(self, session: Session, contacts: Contacts, log: HeldLog):
        self._send, self._act, self._timeouts = session.send, session.act, session.timeouts
        self._contacts, self._log = contacts, log
        self.gaps: list[Gap] = []
        self._had: Header | None = None  # the newest one of the session before, where this one has no chain yet
        self._turn = 0  # of the peer and the gap that come next
        self._asked_at = -inf

    def go_on_from(self, old: "Backfilling", had: Header | None) -> None:
        """The session before this one has left its chain, whose newest header was this."""
        self.gaps, self._had = list(old.gaps), had or old._had

    def loads(self, chain: Chain, had: Header | None) -> None:
        """The chain begins at a snapshot now; `had` was the newest header before."""
        had, oldest = had or self._had, chain.oldest
        # a run's first header has no members; this coordinator may have opened another run, not knowing of this one
        common = 0 if had is None or had.kind is HeaderKind.GENESIS else shared_step(chain.head, had.head)
        if self._contacts.me.is_coordinator and oldest.previous and oldest.step - 1 > common:
            self.gaps.append(Gap(oldest.step - 1, oldest.previous, common))

    def lacks(self, gaps: Iterable[Gap]) -> None:
        """The coordinator's disk has lost what it had."""
        known = {gap.digest for gap in self.gaps}
        self.gaps += [gap for gap in gaps if gap.digest not in known]
        self._act(Credit((), tuple(self.gaps)))

    def tick(self, now: float) -> None:
        """Ask the next peer for what is missing."""
        others = sorted(self._contacts.others)
        if not (self.gaps and others) or now < self._asked_at + self._timeouts.fetch:
            return
        gap, session = self.gaps[self._turn % len(self.gaps)], others[self._turn // len(self.gaps) % len(others)]
        self._turn, self._asked_at = self._turn + 1, now
        self._send(session, WantHeaders(gap.step, gap.digest))

    def on_want_headers(self, sender: str, want: WantHeaders, now: float) -> None:
        """A coordinator asks."""
        chain = self._log.chain
        found = chain.until(want.step, want.digest, MOST_HEADERS) if chain is not None else []
        if found:
            self._send(sender, Headers(tuple(fitting(reversed(found))[::-1])))

    def on_headers(self, sender: str, headers: Headers, now: float) -> None:
        """An answer, of which only what fills a gap is taken."""
        for index, gap in enumerate(self.gaps):
            found, rest = [], gap
            for entry in reversed(headers.entries):
                if entry.header.digest != rest.digest or rest.step <= gap.above:
                    break
                found.append(entry)
                rest = Gap(rest.step - 1, entry.header.previous, gap.above)
            if found:
                self.gaps[index : index + 1] = [rest] if rest.digest and rest.step > gap.above else []
                self._act(Credit(tuple(found[::-1]), tuple(self.gaps)))
                self._turn -= 1  # if the gap is still open, the same peer is asked
                self._asked_at = -inf  # at once
                return
