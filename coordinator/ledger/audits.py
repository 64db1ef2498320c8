"""What the coordinator's audits say of peers: flags for the organizer, and evidence of what is proved."""

import base64
import json
from pathlib import Path
from typing import Any

from averaging.log.header import Member, peer_of
from averaging.shell.audit import Fault, Finding, Verdict
from coordinator.ledger.directions import Directions
from coordinator.ledger.rounds import ODD_STEPS, Flag
from swarm.files import storage_errors, write_file

MEAN, PIECE, PROOF = "mean", "piece", "proof"  # kinds of flags
DIRECTION, AGAINST = "direction", "against"  # and these: against the others in some audits; in so many that it is sure
MOST_KEPT = 100  # files of evidence

_KINDS = {Fault.FALSE_MEAN: MEAN, Fault.TWO_PIECES: PIECE}
_WORDS = {
    Fault.FALSE_MEAN: "gave the swarm a mean of chunk {} that is not the one of the pieces it had summed",
    Fault.TWO_PIECES: "signed two different pieces of chunk {}",
}
_PERHAPS = "reduced chunk {}, or convened the step, and its mean is not the one of the pieces that were sent"
_SILENT = "has not shown what it had sent or summed in {} audits in a row"
_AGAINST = "sends gradients that point against the others' (cosine {:.2f} in {} audits)"


class Audits:
    """Follows verdicts, one by one.

    Args:
        folder: of evidence.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._silent_for: dict[str, int] = {}  # audits in a row, by peer
        self._directions = Directions()

    def flags(self, verdict: Verdict) -> list[Flag]:
        """What is to be said after this one."""
        members = {one.session: one for one in verdict.header.members}
        found = [flag for one in verdict.findings if (flag := self._flag(verdict, one, members)) is not None]
        silent = {peer_of(one.session) for one in verdict.findings if one.fault not in _KINDS}
        for peer in {peer_of(one) for one in members} - silent:
            self._silent_for.pop(peer, None)
        return [*found, *self._against(verdict, members)]

    def _flag(self, verdict: Verdict, one: Finding, members: dict[str, Member]) -> Flag | None:
        peer = peer_of(one.session)
        user = members[one.session].user if one.session in members else peer
        step = verdict.header.step - 1
        if one.fault in _KINDS:
            words = _WORDS[one.fault] if one.is_proof else _PERHAPS
            return Flag(_KINDS[one.fault], user, peer, step, words.format(verdict.chunk))
        self._silent_for[peer] = count = self._silent_for.get(peer, 0) + 1
        if count != ODD_STEPS:
            return None
        return Flag(PROOF, user, peer, step, _SILENT.format(count))

    def _against(self, verdict: Verdict, members: dict[str, Member]) -> list[Flag]:
        step = verdict.header.step - 1
        return [
            Flag(
                AGAINST if one.is_sure else DIRECTION,
                members[one.session].user,
                peer_of(one.session),
                step,
                _AGAINST.format(one.cosine, one.audits),
            )
            for one in self._directions.against(verdict.agreement)
        ]

    def keep(self, verdict: Verdict, flags: list[Flag]) -> None:
        """Write down what proves something, for `sahaj admin URL evidence NAME`.

        Raises:
            StorageError: the disk cannot be written.
        """
        if not verdict.account:
            return
        with storage_errors(self._folder):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if len(list(self._folder.iterdir())) >= MOST_KEPT:
                return
        for flag in (one for one in flags if one.kind in (MEAN, PIECE)):
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


def read_evidence(folder: Path, name: str) -> list[dict[str, Any]]:
    """What there is against a user or a peer, the oldest first.

    Raises:
        StorageError: it cannot be read.
    """
    with storage_errors(folder):
        files = list(folder.glob("*.json")) if folder.is_dir() else []
        found = [json.loads(file.read_text()) for file in files]
    return sorted((one for one in found if name in (one["user"], one["peer_id"])), key=lambda one: int(one["step"]))
