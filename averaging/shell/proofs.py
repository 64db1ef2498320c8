"""What a peer has sent and summed in the last rounds, signed, for a coordinator that sums a chunk again."""

import hashlib
from collections.abc import Sequence

from msgspec.structs import replace

from averaging.log.header import Ballot
from averaging.log.packing import pack
from averaging.protocol import credentials as signed
from averaging.protocol.credentials import Credentials
from averaging.protocol.messages import Account, Plan, Receipt, ShownAccount, ShownPiece
from averaging.reduce.gradient_codec import Compression, piece_bytes
from averaging.reduce.grid import Grid

KEPT = 3  # rounds: that which is asked about, the next one, and one that has failed


class Proofs:
    """Of one peer. Of the event loop's thread; `received`, which changes nothing, may run aside."""

    def __init__(self, credentials: Credentials, grid: Grid):
        self._credentials, self._grid = credentials, grid
        # by what is decided, and the ballot: what is shown
        self._rounds: dict[tuple[str, Ballot], dict[ShownPiece | ShownAccount, bytes]] = {}

    def piece(self, session: str, plan: Plan, chunk: int, content: bytes) -> bytes:
        """What this peer sends: its piece, with its signature behind it."""
        shown, name = self._round(plan), ShownPiece(plan.instance, plan.ballot, chunk)
        if name not in shown:
            digest = hashlib.sha256(content).hexdigest()
            said = signed.piece(session, plan.instance, plan.ballot, chunk, digest)
            shown[name] = content + self._credentials.sign(said)
        return shown[name]

    def received(
        self, plan: Plan, chunk: int, sent: Sequence[tuple[str, bytes]], kind: Compression
    ) -> tuple[list[tuple[str, bytes]], tuple[Receipt, ...]]:
        """The pieces that their senders have signed, without the signatures, and receipts of them.

        Args:
            sent: by session, with signatures, in the order of the sum.
        """
        size = piece_bytes(self._grid.size(chunk), kind)
        pieces, receipts = [], []
        for session, content in sent:
            piece, signature = content[:size], content[size:]
            digest = hashlib.sha256(piece).hexdigest()
            said = signed.piece(session, plan.instance, plan.ballot, chunk, digest)
            if self._credentials.verify(session, said, signature):
                pieces.append((session, piece))
                receipts.append(Receipt(session, digest, signature))
        return pieces, tuple(receipts)

    def summed(
        self, session: str, plan: Plan, chunk: int, mean: str, receipts: Sequence[Receipt], excluded: set[str]
    ) -> None:
        """Keep the account of a chunk that this peer has reduced."""
        told = Account(mean, tuple(one for one in receipts if one.session not in excluded), b"")
        said = signed.account(session, plan.instance, plan.ballot, chunk, told)
        name = ShownAccount(plan.instance, plan.ballot, chunk)
        self._round(plan)[name] = pack(replace(told, signature=self._credentials.sign(said)))

    def shown(self, asked: ShownPiece | ShownAccount) -> bytes | None:
        """What a coordinator has asked for; None: it is not here (any more)."""
        return self._rounds.get((asked.instance, asked.ballot), {}).get(asked)

    def _round(self, plan: Plan) -> dict[ShownPiece | ShownAccount, bytes]:
        kept = self._rounds.setdefault((plan.instance, plan.ballot), {})
        for name in list(self._rounds)[:-KEPT]:
            self._rounds.pop(name, None)
        return kept
