"""The first phase of a ballot: peers call, which says what they bring, and is the promise of voters."""

from collections.abc import Callable

from averaging.log.header import Header
from averaging.protocol import quorum
from averaging.protocol.messages import Accepted, Call, Goodbye, Meet, Message
from averaging.protocol.situation import Situation


class Meeting:
    """Of one ballot."""

    def __init__(self, situation: Situation, send: Callable[[str, Message], None]):
        self.calls: dict[str, Call] = {}  # by session
        self._situation, self._send = situation, send
        self._absent: set[str] = set()  # they answered, and bring nothing

    def ask(self) -> None:
        """Ask the peers that have not answered yet."""
        previous = self._situation.previous
        for session in self._situation.contacts:
            if session not in self.calls and session not in self._absent:
                self._send(session, Meet(previous.digest, previous.step, self._situation.ballot))

    def called(self, session: str, call: Call) -> None:
        """A peer takes part."""
        self.calls[session] = call

    def is_absent(self, session: str) -> None:
        """A peer has answered, and takes no part."""
        self._absent.add(session)

    @property
    def goodbyes(self) -> dict[str, Goodbye]:
        """Those that this ballot may count, by session."""
        return quorum.counted_goodbyes(self._situation.previous, self._situation.ballot, self._situation.goodbyes)

    @property
    def has_promises(self) -> bool:
        """Whether enough voters have promised."""
        return quorum.has_quorum(self._situation.previous, self._situation.me.session, self.calls.keys(), self.goodbyes)

    @property
    def resets(self) -> bool:
        """Whether this ballot does without a quorum."""
        return self._situation.may_reset and not self.has_promises

    def is_over(self, is_late: bool) -> bool:
        """Whether enough voters have promised, and all have called or the time is over."""
        everybody = self._situation.awaited <= self.calls.keys() | self._absent
        return (self.has_promises or (self.resets and is_late)) and (everybody or is_late)

    def accepted_by_others(self, own: Accepted | None) -> Header | None:
        """The header that this ballot has to propose again, if there is one; `own`: that the convener has accepted."""
        known = [call.accepted for call in self.calls.values()]
        same = [one for one in self.goodbyes.values() if one.instance == self._situation.previous.digest]
        return quorum.highest_accepted([*known, *(goodbye.accepted for goodbye in same), own])
