"""What an audit finds: a chunk is summed again from what senders and reducer have shown and signed."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial

from averaging.log.header import Header
from averaging.log.packing import unpack
from averaging.protocol import credentials as signed
from averaging.protocol.auditing import reducer_of, senders_of
from averaging.protocol.credentials import Credentials
from averaging.protocol.messages import Account
from averaging.reduce.agreement import agreements
from averaging.reduce.clipping import Robust
from averaging.reduce.gradient_codec import Compression, piece_bytes
from averaging.reduce.grid import Grid
from averaging.reduce.reducer import average


class Fault(Enum):
    """What is held against a session."""

    FALSE_MEAN = "false mean"  # the mean is not that of the pieces which it has summed
    TWO_PIECES = "two pieces"  # it has sent the reducer another piece than it shows
    SILENT = "silent"  # it has shown nothing
    NO_ACCOUNT = "no account"  # its account is not whole: a sender's signature is missing, or its own


@dataclass(frozen=True)
class Finding:
    """About one session."""

    session: str
    fault: Fault
    is_proof: bool = False  # others can check it; else it may have reasons, or be another's fault


@dataclass(frozen=True)
class Verdict:
    """Of one audit."""

    header: Header
    chunk: int
    findings: tuple[Finding, ...] = ()
    account: bytes = b""  # as it was shown
    pieces: tuple[tuple[str, bytes], ...] = ()  # as they were shown, by session
    agreement: tuple[tuple[str, float], ...] = ()  # of each sender with the others: the cosine of their gradients


@dataclass(frozen=True)
class Auditor:
    """Of one peer."""

    grid: Grid
    kind: Compression
    robust: Robust
    credentials: Credentials
    session: str

    def judge(self, header: Header, chunk: int, shown: Mapping[str, bytes], account: bytes | None) -> Verdict:
        """What pieces and account say.

        Args:
            shown: by sender, as the piece was sent: with the signature behind it.
            account: of the reducer; None: it has shown none.
        """
        reducer, senders = reducer_of(header, chunk), senders_of(header, chunk)
        verdict = partial(Verdict, header, chunk)
        silent = [Finding(one, Fault.SILENT) for one in senders if one not in shown]
        told = None if account is None else self._account(header, chunk, reducer, account)
        if told is None:
            fault = Fault.SILENT if account is None else Fault.NO_ACCOUNT
            return verdict((*silent, Finding(reducer, fault)))
        size = piece_bytes(self.grid.size(chunk), self.kind)
        pieces = {one: shown[one][:size] for one in senders if one in shown}
        summed = {receipt.session: receipt.digest for receipt in told.receipts}
        proved = []
        for session, piece in pieces.items():
            digest = hashlib.sha256(piece).hexdigest()
            if not self._has_signed(header, chunk, session, digest, shown[session][size:]):
                silent.append(Finding(session, Fault.SILENT))
            elif summed.get(session, digest) != digest:
                proved.append(Finding(session, Fault.TWO_PIECES, is_proof=True))
        kept = account or b"", tuple((one, shown[one]) for one in pieces)
        if silent or proved:
            return verdict((*silent, *proved), *(kept if proved else ()))
        if set(summed) != set(senders):
            return verdict((Finding(reducer, Fault.NO_ACCOUNT),))
        weights = {one.session: one.weight for one in header.members}
        users = {one.session: one.user for one in header.members}
        agreement: tuple[tuple[str, float], ...] = ()
        try:
            again = average(self.grid, self.kind, list(pieces.items()), chunk, weights, self.robust, users)
            if not again.excluded:
                agreement = agreements(self.grid.size(chunk), self.kind, pieces, weights, users)
                if hashlib.sha256(again.encoded).hexdigest() == header.chunks[chunk] == told.mean:
                    return verdict(agreement=agreement)
        except ValueError:  # of these pieces there is no mean
            pass
        # the plan of a round is its convener's word to the reducer; our own word we know
        if header.ballot.convener == self.session:
            return verdict((Finding(reducer, Fault.FALSE_MEAN, is_proof=True),), *kept, agreement)
        both = tuple(Finding(one, Fault.FALSE_MEAN) for one in dict.fromkeys((reducer, header.ballot.convener)))
        return verdict(both, *kept, agreement)

    def _account(self, header: Header, chunk: int, reducer: str, shown: bytes) -> Account | None:
        """The account, if it is whole: signed, and each receipt by its sender."""
        try:
            told: Account = unpack(Account, shown)
        except ValueError:
            return None
        content = signed.account(reducer, header.previous, header.ballot, chunk, told)
        if not self.credentials.verify(reducer, content, told.signature):
            return None
        if not all(self._has_signed(header, chunk, one.session, one.digest, one.signature) for one in told.receipts):
            return None
        return told

    def _has_signed(self, header: Header, chunk: int, session: str, digest: str, signature: bytes) -> bool:
        content = signed.piece(session, header.previous, header.ballot, chunk, digest)
        return self.credentials.verify(session, content, signature)
