"""What a convener knows of the others: where they stand, what they have gathered, and which of them a round waits for.

DeDLOC, section 3.1: peers gather gradients until all of them together have the target batch.
"""

from collections.abc import Collection
from dataclasses import dataclass

from averaging.log.header import Head, peer_of

HEARD = 5.0  # seconds after its last word in which a peer is taken to be there
MISSES = 2  # rounds in a row that a peer may miss, or send nothing in, before it is not counted on
FORGIVEN = 20.0  # seconds after which it is counted on again
MOST_DOUBLINGS = 4  # of that time, after further rounds that it misses


@dataclass
class PeerView:
    """One peer, as its reports show it."""

    head: Head | None
    samples: int
    heard_at: float
    missed: int = 0  # rounds in a row
    missed_at: float = float("-inf")  # the last of them
    brings: bool = False  # it has had samples once: it is a trainer

    def is_counted_on(self, now: float) -> bool:
        """Whether it can be expected to call."""
        doublings = min(self.missed - MISSES, MOST_DOUBLINGS)
        return self.missed < MISSES or now >= self.missed_at + FORGIVEN * 2**doublings


class PeerViews:
    """The reports of all peers."""

    def __init__(self) -> None:
        self.peers: dict[str, PeerView] = {}
        self._silent: dict[str, tuple[int, float]] = {}  # rounds in a row without a piece of a peer, and the last one

    def note(self, session: str, head: Head | None, samples: int, now: float) -> None:
        """Take in a report."""
        known = self.peers.setdefault(session, PeerView(head, samples, now))
        known.head, known.samples, known.heard_at = head, samples, now
        known.brings = known.brings or samples > 0

    def heard(self, session: str, now: float) -> None:
        """Take in any other word of a peer that has reported before."""
        if session in self.peers:
            self.peers[session].heard_at = now

    def present(self, instance: str, now: float) -> dict[str, PeerView]:
        """The peers that stand at a header and have been heard of lately."""
        return {
            session: peer
            for session, peer in self.peers.items()
            if peer.head is not None and peer.head.digest == instance and now - peer.heard_at <= HEARD
        }

    def expected(self, instance: str, now: float) -> dict[str, PeerView]:
        """The peers for which a meeting stays open: those that are counted on, or all if none of these brings anything.

        So one that reports samples and does not call spoils a few rounds: what it reports counts nothing then, until it
        has been in a round or is forgiven.
        """
        sending = self._sending(instance, now)
        reliable = {session: peer for session, peer in sending.items() if peer.is_counted_on(now)}
        return reliable if any(peer.brings for peer in reliable.values()) else sending

    def gathered(self, instance: str, now: float) -> int:
        """Samples of the peers that are expected."""
        return sum(peer.samples for peer in self.expected(instance, now).values())

    def _sending(self, instance: str, now: float) -> dict[str, PeerView]:
        present = self.present(instance, now)
        if not self._silent:
            return present
        return {session: peer for session, peer in present.items() if self.sends(session, now)}

    def round_closed(self, instance: str, members: Collection[str], now: float) -> None:
        """Note who was there and who was not. Those that nobody counted on have missed nothing."""
        for session, peer in self.present(instance, now).items():
            if session in members:
                peer.missed = 0
            elif peer.is_counted_on(now):
                peer.missed, peer.missed_at = peer.missed + 1, now

    def committed(self, senders: Collection[str], silent: Collection[str], now: float) -> None:
        """Note which members of a round have sent pieces, and which have called and sent none."""
        for peer in map(peer_of, senders):
            self._silent.pop(peer, None)
        for peer in map(peer_of, silent):
            self._silent[peer] = self._silent.get(peer, (0, now))[0] + 1, now

    def sends(self, session: str, now: float) -> bool:
        """Whether pieces of it can be expected to come, so that rounds may plan with what it brings."""
        rounds, at = self._silent.get(peer_of(session), (0, now))
        return rounds < MISSES or now >= at + FORGIVEN

    def forget(self, session: str) -> None:
        """A peer has left."""
        self.peers.pop(session, None)

    def forget_silent(self, now: float, seconds: float) -> None:
        """Drop peers that have not been heard of for long."""
        for session in [one for one, peer in self.peers.items() if now - peer.heard_at > seconds]:
            del self.peers[session]
        self._silent = {peer: one for peer, one in self._silent.items() if now - one[1] <= seconds}
