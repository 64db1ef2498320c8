"""Whose line carries less than its owner says, by whom the others had to wait for.

Parts follow what peers say of their lines. Who overstates its line makes a round late once: those who had to wait for
it tell, in the next rounds, what they saw it carry, and the group believes no more than that. Nobody's word is enough
alone. Words are forgotten after some rounds, for a line may get better; who is late again is remembered for twice as
long.

A peer that averages a part sees who sends it gradients last, piece by piece, and that one is slow. A peer that only
gets means sees whose mean comes last, and that one may itself have had to wait. So the words of the former go first.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hivemind.p2p import PeerID

from trainer.averaging.told import MOST_WORDS, Told, Word

LATE, LATE_SECONDS = 1.5, 1.0  # of its predicted time, and seconds beyond, after which a round is late
TO_BLAME = 0.5  # of the seconds beyond the predicted time, in which one member alone was waited for
WITNESSES = 2  # members that have to say the same
REMEMBERED, LONGEST_REMEMBERED = 4, 64  # rounds


@dataclass(frozen=True)
class Wait:
    """Seconds in which a peer waited for one member alone."""

    peer: PeerID
    seconds: float
    as_sender: bool  # for its gradients; otherwise for its means


def blamed(waits: Sequence[Wait], took: float, predicted: float) -> Wait | None:
    """Who has made a round late, if it was late and there is one.

    Args:
        waits: of this peer in the round.
        took: seconds of the round.
        predicted: seconds that it should have taken.
    """
    if took <= LATE * predicted + LATE_SECONDS:
        return None
    longest = max(waits, key=lambda wait: (wait.seconds, wait.as_sender), default=None)
    return longest if longest and longest.seconds >= TO_BLAME * (took - predicted) else None


def carried(share: float, members: int, wire_bytes: float) -> float:
    """Bytes that a member's line carries in a round, in each direction: its own gradients, and the means of its part.

    Args:
        share: of the vector that it averages.
        members: of the group, at least two.
        wire_bytes: of the whole vector as it travels.
    """
    return wire_bytes * (1.0 + (members - 2) * share)


class Memory:
    """What a peer has seen of lines that carry less than their owners say."""

    def __init__(self) -> None:
        self._round = 0
        self._seen: dict[PeerID, tuple[Word, int, int]] = {}  # word, round after which it is forgotten, and its length

    def next_round(self) -> None:
        """One more round has ended."""
        self._round += 1

    def note(self, word: Word) -> None:
        """Remember what was seen in the round that has just ended."""
        peer = PeerID(word.peer)
        _, _, length = self._seen.pop(peer, (word, 0, REMEMBERED // 2))
        length = min(LONGEST_REMEMBERED, 2 * length)
        self._seen[peer] = word, self._round + length, length

    def words(self) -> list[Word]:
        """What to tell: the newest words that are not forgotten."""
        return [word for word, until, _ in self._seen.values() if self._round <= until][-MOST_WORDS:]


def believed(told: Mapping[PeerID, Told]) -> list[Told]:
    """What the members of a group believe of each other's lines, in the same order.

    Args:
        told: by member, what each has told.
    """
    about: dict[bytes, list[Word]] = {}
    for peer, one in told.items():
        for word in {word.peer: word for word in one.late}.values():
            if word.peer != peer.to_bytes():
                about.setdefault(word.peer, []).append(word)
    return [_corrected(one, about.get(peer.to_bytes(), [])) for peer, one in told.items()]


def _corrected(told: Told, words: Sequence[Word]) -> Told:
    seen = [word.speed for word in words if word.as_sender]
    if len(seen) < WITNESSES:
        seen = [word.speed for word in words]
    if len(seen) < WITNESSES:
        return told
    most = statistics.median_low(seen)
    return replace(told, upload=min(told.upload or most, most), download=min(told.download or most, most))
