"""What a coordinator finds out about the members of a step.

In an audit a chunk is summed again from what senders and reducer have shown and signed. Of a part that it has reduced
itself it has all pieces, so it compares them.
"""

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TypeAlias

from averaging.log.header import Ballot, Header
from averaging.log.packing import unpack
from averaging.protocol import credentials as signed
from averaging.protocol.actions import Audit
from averaging.protocol.auditing import reducer_of, senders_of
from averaging.protocol.messages import Account
from averaging.reduce.agreement import Agreement, agreements
from averaging.reduce.gradient_codec import piece_bytes
from averaging.reduce.reducer import average
from averaging.shell.locked_machine import LockedMachine

COMPARED = 4  # chunks of a coordinator's own part, in a step

Compare: TypeAlias = Callable[[], tuple[Agreement, ...]]


class Fault(Enum):
    """What is held against a session."""

    FALSE_MEAN = "false mean"  # the mean is not that of the pieces which it has summed
    TWO_PIECES = "two pieces"  # it has sent the reducer another piece than it shows
    NO_PIECE = "no piece"  # it has shown none that it has signed
    NO_ACCOUNT = "no account"  # as the reducer it has shown none that is whole, with its signature and its senders'


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
    agreement: tuple[Agreement, ...] = ()  # of each sender with the others
    users: tuple[tuple[str, str], ...] = ()  # by session, of those that the coordinator knows by their passes


@dataclass(frozen=True)
class Comparison:
    """Of the pieces that a coordinator has averaged itself."""

    header: Header
    agreement: tuple[Agreement, ...]  # of each sender with the others, on average of the chunks that have been compared
    users: tuple[tuple[str, str], ...]  # as in `Verdict`


class Auditor:
    """Of one peer."""

    def __init__(self, locked: LockedMachine):
        self._locked, self._credentials, self._robust = locked, locked.credentials, locked.settings.robust
        self._grid, self._kind = locked.gradients.grid, locked.gradients.kind

    def judge(self, action: Audit, shown: Mapping[str, bytes], account: bytes | None) -> Verdict:
        """What pieces and account say.

        Args:
            shown: by sender, as the piece was sent: with the signature behind it.
            account: of the reducer; None: it has shown none.
        """
        header, chunk = action.header, action.chunk
        reducer, senders = reducer_of(header, chunk), senders_of(header, chunk)
        verdict = partial(Verdict, header, chunk, users=action.users)
        told = None if account is None else self._account(header, chunk, reducer, account)
        size = piece_bytes(self._grid.size(chunk), self._kind)
        pieces = {one: shown[one][:size] for one in senders if one in shown}
        digests = {one: hashlib.sha256(piece).hexdigest() for one, piece in pieces.items()}
        signed_ones = {one for one in pieces if self._has_signed(header, chunk, one, digests[one], shown[one][size:])}
        missing = [Finding(one, Fault.NO_PIECE) for one in senders if one not in signed_ones]
        if told is None:
            return verdict((*missing, Finding(reducer, Fault.NO_ACCOUNT)))
        summed = {receipt.session: receipt.digest for receipt in told.receipts}
        proved = [
            Finding(one, Fault.TWO_PIECES, is_proof=True)
            for one in sorted(signed_ones)
            if summed.get(one, digests[one]) != digests[one]
        ]
        if proved:
            two = tuple((one.session, shown[one.session]) for one in proved)
            return verdict((*missing, *proved), account or b"", two)
        if missing:
            return verdict(tuple(missing))
        if set(summed) != set(senders):
            return verdict((Finding(reducer, Fault.NO_ACCOUNT),))
        weights = {one.session: one.weight for one in header.members}
        users = {one.session: one.user for one in header.members}
        agreement: tuple[Agreement, ...] = ()
        try:
            again = average(
                self._grid, self._kind, list(pieces.items()), chunk, weights, self._robust, users, header.on_probation
            )
            if not again.excluded:
                agreement = agreements(self._grid.size(chunk), self._kind, pieces, weights, users, header.on_probation)
                if hashlib.sha256(again.encoded).hexdigest() == header.chunks[chunk] == told.mean:
                    return verdict(agreement=agreement)
        except ValueError:  # of these pieces there is no mean
            pass
        # the plan of a round is its convener's word to the reducer; our own word we know
        if header.ballot.convener == self._locked.machine.me.session:
            kept = tuple((one, shown[one]) for one in senders)
            return verdict((Finding(reducer, Fault.FALSE_MEAN, is_proof=True),), account or b"", kept, agreement)
        both = (Finding(one, Fault.FALSE_MEAN) for one in dict.fromkeys((reducer, header.ballot.convener)))
        return verdict(tuple(both), agreement=agreement)

    def _account(self, header: Header, chunk: int, reducer: str, shown: bytes) -> Account | None:
        """The account, if it is whole: signed, and each receipt by its sender."""
        try:
            told: Account = unpack(Account, shown)
        except ValueError:
            return None
        content = signed.account(reducer, header.previous, header.ballot, chunk, told)
        if len(told.receipts) > len(header.members) or not self._credentials.verify(reducer, content, told.signature):
            return None
        if not all(self._has_signed(header, chunk, one.session, one.digest, one.signature) for one in told.receipts):
            return None
        return told

    def _has_signed(self, header: Header, chunk: int, session: str, digest: str, signature: bytes) -> bool:
        content = signed.piece(session, header.previous, header.ballot, chunk, digest)
        return self._credentials.verify(session, content, signature)


class OwnPart:
    """Some chunks of the part that a coordinator reduces in the open ballot.

    Their pieces are those that went into the mean, because a liar could send others later. A chunk is drawn only after
    its pieces have come, so a sender cannot know whether they will be compared.
    """

    def __init__(self) -> None:
        self._ballot: Ballot | None = None
        self._drawn: list[tuple[int, int, str, Compare]] = []  # its lot, chunk, mean

    def averaged(self, ballot: Ballot, chunk: int, mean: str, compare: Compare) -> None:
        """This peer has made a mean: the chunks with the lowest lots are kept.

        Args:
            mean: its digest.
            compare: tells how far the pieces agree that it was made of.
        """
        before = self._drawn if ballot == self._ballot else []
        self._ballot = ballot
        self._drawn = sorted([*before, (secrets.randbits(64), chunk, mean, compare)], key=lambda one: one[0])[:COMPARED]

    def of(self, header: Header) -> list[Compare]:
        """Return the comparisons for drawn chunks that the header commits, and forget all that were drawn."""
        drawn, self._drawn = self._drawn, []
        return [compare for _, chunk, mean, compare in drawn if header.chunks[chunk] == mean]
