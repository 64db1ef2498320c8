"""What the coordinator's audits say of peers: flags for the organizer, and evidence of what is proved."""

import base64
import json
from pathlib import Path
from typing import Any

from averaging.log.header import peer_of
from averaging.protocol.auditing import reducer_of, senders_of
from averaging.shell.audit import Fault, Finding, Verdict
from coordinator.ledger.audits.opposing_gradients import Directions
from coordinator.ledger.audits.worth import Worth
from coordinator.ledger.rounds import ODD_STEPS, Flag
from swarm.files import storage_errors, write_file

MEAN, PIECE, PROOF = "mean", "piece", "proof"  # kinds of flags
WORTH = "worth"  # agrees with the others too little for what it brings
DIRECTION, AGAINST = "direction", "against"  # and these: against the others in some audits; in so many that it is sure
MOST_KEPT, MOST_OF_A_PEER = 100, 3  # files of evidence

_KINDS = {Fault.FALSE_MEAN: MEAN, Fault.TWO_PIECES: PIECE}
_WORDS = {
    Fault.FALSE_MEAN: "gave the swarm a mean of chunk {} that is not the one of the pieces it had summed",
    Fault.TWO_PIECES: "signed two different pieces of chunk {}",
}
_PERHAPS = "reduced chunk {}, or convened the step, and its mean is not the one of the pieces that were sent"
_SHOWS_NOTHING = {
    Fault.NO_PIECE: "did not show what it had sent in {} audits in a row",
    Fault.NO_ACCOUNT: "did not show what it had summed in {} audits of its means in a row",
}
_LESS = (
    "sends gradients that agree with the others' less (cosine {:.2f}) than the gradients of people who contribute "
    "fewer samples do ({:.2f}); training on a different text can cause this"
)
_AGAINST = "sends gradients that point against the others' (cosine {:.2f} in {} audits)"


class Audits:
    """Follows verdicts, one by one.

    Args:
        folder: of evidence.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._nothing_for: dict[tuple[str, Fault], int] = {}  # audits in a row, by peer and what it has not shown
        self._directions, self._worth = Directions(), Worth()

    def flags(self, verdict: Verdict) -> list[Flag]:
        """What is to be said after this one."""
        found = [flag for one in verdict.findings if (flag := self._flag(verdict, one)) is not None]
        return found + self._shows_nothing(verdict) + self._against(verdict) + self._less(verdict)

    def _flag(self, verdict: Verdict, one: Finding) -> Flag | None:
        if one.fault not in _KINDS:
            return None
        words = _WORDS[one.fault] if one.is_proof else _PERHAPS
        return _said(_KINDS[one.fault], verdict, one.session, words.format(verdict.chunk))

    def _shows_nothing(self, verdict: Verdict) -> list[Flag]:
        """Each counts in its role: a reducer that keeps its account to itself goes on showing its pieces."""
        asked = [(one, Fault.NO_PIECE) for one in senders_of(verdict.header, verdict.chunk)]
        asked.append((reducer_of(verdict.header, verdict.chunk), Fault.NO_ACCOUNT))
        missing = {(one.session, one.fault) for one in verdict.findings}
        found = []
        for session, fault in asked:
            key = peer_of(session), fault
            if (session, fault) not in missing:
                self._nothing_for.pop(key, None)
                continue
            self._nothing_for[key] = count = self._nothing_for.get(key, 0) + 1
            if count == ODD_STEPS:
                found.append(_said(PROOF, verdict, session, _SHOWS_NOTHING[fault].format(count)))
        return found

    def _against(self, verdict: Verdict) -> list[Flag]:
        return [
            _said(AGAINST if one.is_sure else DIRECTION, verdict, one.session, _AGAINST.format(one.cosine, one.audits))
            for one in self._directions.against(verdict.agreement)
        ]

    def _less(self, verdict: Verdict) -> list[Flag]:
        weights = {one.session: one.weight for one in verdict.header.members}
        return [
            _said(WORTH, verdict, one.session, _LESS.format(one.cosine, one.usual))
            for one in self._worth.less(verdict.agreement, weights)
        ]

    def keep(self, verdict: Verdict, flags: list[Flag]) -> None:
        """Write down what proves something, for `sahaj admin LINK evidence NAME`.

        Raises:
            StorageError: the disk cannot be written.
        """
        proved = {peer_of(one.session) for one in verdict.findings if one.is_proof}
        if not proved:
            return
        with storage_errors(self._folder):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            for flag in (one for one in flags if one.kind in (MEAN, PIECE) and one.peer_id in proved):
                kept = [file.name for file in self._folder.iterdir()]
                if len(kept) >= MOST_KEPT or sum(one.startswith(flag.peer_id) for one in kept) >= MOST_OF_A_PEER:
                    continue
                evidence = {
                    "user": flag.user,
                    "peer_id": flag.peer_id,
                    "what": flag.what,
                    "step": flag.step,
                    "chunk": verdict.chunk,
                    "header": base64.b64encode(verdict.header.encoded).decode(),
                    "account": base64.b64encode(verdict.account).decode(),
                    "pieces": {session: base64.b64encode(piece).decode() for session, piece in verdict.pieces},
                }
                write_file(self._folder / f"{flag.peer_id}-{flag.step}.json", json.dumps(evidence))


def _said(kind: str, verdict: Verdict, session: str, what: str) -> Flag:
    """Of a user that the coordinator knows; a header may say that a session is anybody's."""
    peer = peer_of(session)
    return Flag(kind, dict(verdict.users).get(session, peer), peer, verdict.header.step - 1, what)


def read_evidence(folder: Path, name: str) -> list[dict[str, Any]]:
    """What there is against a user or a peer, the oldest first.

    Raises:
        StorageError: it cannot be read.
    """
    with storage_errors(folder):
        files = list(folder.glob("*.json")) if folder.is_dir() else []
        found = [json.loads(file.read_text()) for file in files]
    return sorted((one for one in found if name in (one["user"], one["peer_id"])), key=lambda one: int(one["step"]))
