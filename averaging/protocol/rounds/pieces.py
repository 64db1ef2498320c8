"""The pieces that others have sent; each sender has room of its own."""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from averaging.log.header import Ballot, peer_of
from averaging.protocol.messages import Piece

MOST_SESSIONS = 8  # of one peer; pieces of its other sessions are dropped

T = TypeVar("T")


class Pieces(Generic[T]):
    """Those of two ballots, of each sender; with each piece what its receiver keeps of it.

    Args:
        chunks: of the grid.
    """

    def __init__(self, chunks: int):
        self._room = 2 * chunks  # of one sender
        self._by_sender: dict[str, dict[Piece, T]] = {}

    def of(self, sender: str) -> Mapping[Piece, T]:
        """Those of one sender."""
        return self._by_sender.get(sender, {})

    def keep(self, sender: str, piece: Piece, content: T) -> bool:
        """Keep a piece; False: there is no room for it.

        When room runs out, a piece takes that of older ballots, and a new session that of the oldest one of its peer.
        """
        if sender not in self._by_sender:
            for one in _oldest_sessions(self._by_sender, sender):
                del self._by_sender[one]
        known = self._by_sender.setdefault(sender, {})
        if len(known) >= self._room and all(one.ballot <= piece.ballot for one in known):
            known = self._by_sender[sender] = {one: kept for one, kept in known.items() if one.ballot == piece.ballot}
        if len(known) >= self._room:
            return False
        known[piece] = content
        return True

    def keep_only(self, is_needed: Callable[[Ballot], bool]) -> None:
        """Drop the pieces of all other ballots."""
        kept = {
            sender: {piece: content for piece, content in known.items() if is_needed(piece.ballot)}
            for sender, known in self._by_sender.items()
        }
        self._by_sender = {sender: known for sender, known in kept.items() if known}


def _oldest_sessions(known: Iterable[str], newcomer: str) -> list[str]:
    """The known sessions to drop, so that a peer has at most `MOST_SESSIONS` together with its newcomer."""
    return [one for one in known if peer_of(one) == peer_of(newcomer)][: -MOST_SESSIONS + 1]
