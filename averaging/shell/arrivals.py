"""Pieces and chunks that others send: kept as far as they are of use, and as there is room for them."""

import logging
from collections import Counter
from dataclasses import dataclass

from averaging.log.header import Ballot
from averaging.moshpit.peer import GroupPeer
from averaging.protocol.messages import Chunk, Message, Piece
from averaging.reduce.pieces import piece_bytes
from averaging.shell.guarded import Guarded
from averaging.shell.replay import Contents, Replay
from swarm.errors import StorageError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PieceName:
    """What a sender calls a piece."""

    ballot: Ballot
    chunk: int
    attempt: int


class Arrivals:
    """Of one peer; for the thread of the event loop."""

    def __init__(self, guarded: Guarded, replay: Replay, contents: Contents):
        self._guarded, self._replay, self._contents = guarded, replay, contents
        self._pieces: dict[str, dict[PieceName, bytes]] = {}  # by sender
        self._has_room = True  # for the last chunk there was
        self._round: Ballot | None = None
        self._pushed: Counter[str] = Counter()  # chunks by reducer that nobody has asked for, in this round

    def takes(self, sender: str, message: Message, payload: bytes, now: float) -> bool:
        """Keep what comes with a message; False: it is of no use, so the machine is not to hear of it.

        The transport has checked that a chunk has the digest that it is sent under.
        """
        match message:
            case Chunk(digest):
                return self._is_expected(sender, digest) and self._keeps_chunk(digest, payload, now)
            case Piece():
                return self._keeps_piece(sender, message, payload)
        return True

    def piece(self, sender: str, name: PieceName) -> bytes | None:
        """One that has come, if it is still kept."""
        return self._pieces.get(sender, {}).get(name)

    def forget_pieces(self, decided: Ballot) -> None:
        """Keep only those of later ballots."""
        for sender, known in list(self._pieces.items()):
            self._pieces[sender] = {name: piece for name, piece in known.items() if name.ballot > decided}
        self._pieces = {sender: known for sender, known in self._pieces.items() if known}

    def _is_expected(self, sender: str, digest: str) -> bool:
        """Whether a chunk was asked for, or may be of the update that a reducer of the open round is sending.

        Its digest says nothing then: nobody knows it before the header. So each reducer has room for its part, and for
        as much again.
        """
        machine = self._guarded.machine
        if digest in machine.fetching.wanted or self._contents.has(digest):
            return True
        plan = machine.reducing.plan
        if plan is None:
            return False
        if plan.ballot != self._round:
            self._round, self._pushed = plan.ballot, Counter()
        self._pushed[sender] += 1
        return self._pushed[sender] <= 2 * sum(part.count for part in plan.parts if part.reducer == sender)

    def _keeps_chunk(self, digest: str, content: bytes, now: float) -> bool:
        """Whether there is room for it and, if it is a manifest, whether its snapshot can be loaded."""
        machine, fetching = self._guarded.machine, self._guarded.machine.fetching
        try:
            chunks = self._replay.checked(content).chunks if fetching.is_snapshot(digest) else None
            self._contents.put(digest, content)
        except ValueError as error:
            if isinstance(machine, GroupPeer):
                self._guarded.cannot_load(machine, digest, error, now)
            else:
                logger.warning("snapshot %s cannot be used: %s", digest, error)
            return False
        except StorageError as error:  # it will be asked for again
            if self._has_room:
                logger.warning("what others send cannot be kept: %s", error)
            self._has_room = False
            return False
        self._has_room = True
        if chunks is not None:
            with self._guarded.lock:
                fetching.consists_of(digest, chunks, now)
        return True

    def _keeps_piece(self, sender: str, piece: Piece, payload: bytes) -> bool:
        """Of each sender those of the newest ballot, and as many of another one as there is room for."""
        grid, kind = self._guarded.gradients.grid, self._guarded.kind(piece.ballot)
        if not 0 <= piece.chunk < grid.count or len(payload) != piece_bytes(grid.size(piece.chunk), kind):
            return False
        known = self._pieces.setdefault(sender, {})
        if len(known) >= 2 * grid.count:
            newest = max(name.ballot for name in known)
            if piece.ballot < newest:
                return False
            known = self._pieces[sender] = {name: one for name, one in known.items() if name.ballot >= piece.ballot}
        if len(known) >= 2 * grid.count:
            return False
        known[PieceName(piece.ballot, piece.chunk, piece.attempt)] = payload
        return True
