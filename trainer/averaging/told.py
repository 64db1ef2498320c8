"""What the members of a group tell each other before they average.

It travels with the metadata that hivemind gathers, so all members have the same words in the same order and come to the
same result. A message that is none counts as one of a peer at no global step, which is left out.
"""

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from hivemind.averaging.allreduce import AveragingMode
from hivemind.averaging.group_info import GroupInfo
from hivemind.p2p import PeerID
from hivemind.utils import MSGPackSerializer

from swarm.gate import Gate
from swarm.passes import is_coordinators
from trainer.averaging.claims import believed_step
from trainer.averaging.lines.speeds import FASTEST

LONGEST_WORD = 2**14  # bytes; a pass has some hundred
NOTHING_OF_LINES = (0.0, 0.0, ())  # how fast its own is up and down, and words about others'
MOST_WORDS = 8  # about others' lines, in one message


@dataclass(frozen=True)
class Word:
    """What a peer has seen of another one's line, which carries less than its owner said (`lines/late.py`)."""

    peer: bytes
    speed: float  # bytes a second
    as_sender: bool  # it was gradients that came late; otherwise means


@dataclass(frozen=True)
class Told:
    """What a peer told its group."""

    step: int
    shown: bytes  # its pass
    assists: bool  # it says that it is the coordinator
    seen: int = 0  # peers at its step, itself included; 0: that does not matter
    upload: float = 0.0  # bytes a second that its line carries; 0: not known
    download: float = 0.0  # the same
    speed: float = 0.0  # samples a second that it computes, or would; 0: none, or not known
    trains: bool = True  # it has gradients to send, or parameters
    late: tuple[Word, ...] = ()

    def is_coordinators(self, gate: Gate | None) -> bool:
        """Whether to believe that; its pass was checked before, where there are passes."""
        return self.assists and (gate is None or is_coordinators(self.shown))


def to_tell(
    step: object,
    shown: bytes,
    *,
    assists: bool = False,
    seen: int = 0,
    cell: tuple[object, ...] | None = None,
    speed: float = 0.0,
    trains: bool = True,
) -> list[object]:
    """What a peer gives hivemind to tell its group (see `Told`); `with_lines` adds what is known of lines.

    Args:
        cell: where it looks for the group, as `grid.packed` has it.
    """
    return [step, shown, assists, seen, cell, speed, trains, *NOTHING_OF_LINES]


def read_told(gathered: bytes) -> Told:
    """What is in a peer's message to its group: bandwidth, mode, and the `gather` of the round.

    Something else counts as a step that nobody is at, without a pass.
    """
    try:
        said = MSGPackSerializer.loads(MSGPackSerializer.loads(gathered)[2])
        step, shown, assists, seen, _, speed, trains, upload, download, words = said
        seen_late = [(peer, float(rate), sent is True) for peer, rate, sent in words[:MOST_WORDS] if _figure(rate)]
        return Told(
            int(step),
            _short(shown),
            assists is True,
            int(seen),
            _figure(upload),
            _figure(download),
            _figure(speed),
            trains is True,
            tuple(Word(_short(peer), rate, sent) for peer, rate, sent in seen_late),
        )
    except Exception:
        return Told(-1, b"", False)


def with_lines(gathered: bytes, upload: float, download: float, late: Sequence[Word] = ()) -> bytes:
    """A peer's message to its group, with what its line carries (bytes a second; 0: not known) and others' do."""
    bandwidth, mode, data = MSGPackSerializer.loads(gathered)
    said = MSGPackSerializer.loads(data)[: -len(NOTHING_OF_LINES)]
    words = [[word.peer, _rounded(word.speed), word.as_sender] for word in late]
    said += [_rounded(upload), _rounded(download), words]
    return MSGPackSerializer.dumps([bandwidth, mode, MSGPackSerializer.dumps(said)])


def is_client(gathered: bytes) -> bool:
    """Whether a peer told its group that it accepts no connections."""
    return MSGPackSerializer.loads(gathered)[1] == AveragingMode.CLIENT.value


def _figure(word: float) -> float:
    """What is no speed, of a line or a processor, counts as not known."""
    return float(word) if 0.0 < float(word) <= FASTEST else 0.0


def _short(word: object) -> bytes:
    """Raises `ValueError` where it is something else, as a number of which `bytes` would make gigabytes of zeros."""
    if not isinstance(word, bytes) or len(word) > LONGEST_WORD:
        raise ValueError("this is no pass and no peer id")
    return word


def _rounded(speed: float) -> float:
    return float(f"{speed:.2e}")


def at_newest_step(told: Mapping[PeerID, Told]) -> dict[PeerID, Told]:
    """Those who average among themselves; the others learn that they are behind."""
    newest = believed_step([one.step for one in told.values()])
    return {peer: one for peer, one in told.items() if one.step == newest}


def is_most(members: Sequence[Told], gate: Gate | None) -> bool:
    """Whether a group has most of the peers at its step, as its members see them: then no other group takes it.

    It may be half of them with the coordinator, which is in one group only.
    """
    seen = statistics.median_low([one.seen for one in members])
    return 2 * len(members) > seen or (2 * len(members) == seen and any(one.is_coordinators(gate) for one in members))


def is_enough(members: Sequence[Told], gate: Gate | None) -> bool:
    """Whether a group may average: it is most of the peers, and somebody in it has something to average."""
    return any(one.trains for one in members) and is_most(members, gate)


def narrowed(group: GroupInfo, members: Collection[PeerID]) -> GroupInfo:
    """The group with these members only; all who keep the same ones come to the same result."""
    kept = [i for i, peer_id in enumerate(group.peer_ids) if peer_id in members]
    return GroupInfo(group.group_id, tuple(group.peer_ids[i] for i in kept), tuple(group.gathered[i] for i in kept))
