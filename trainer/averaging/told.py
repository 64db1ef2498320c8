"""What the members of a group tell each other before they average.

It travels with the metadata that hivemind gathers, so all members have the same words in the same order and come to the
same result. A message that is none counts as one of a peer at no global step, which is left out.
"""

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from hivemind.averaging.group_info import GroupInfo
from hivemind.p2p import PeerID
from hivemind.utils import MSGPackSerializer

from swarm.gate import Gate
from swarm.passes import is_coordinators
from trainer.averaging.claims import believed_step


@dataclass(frozen=True)
class Told:
    """What a peer told its group."""

    step: int
    shown: bytes  # its pass
    assists: bool  # it says that it is the coordinator
    seen: int = 0  # peers at its step, itself included; 0: that does not matter

    def is_coordinators(self, gate: Gate | None) -> bool:
        """Whether to believe that; its pass was checked before, where there are passes."""
        return self.assists and (gate is None or is_coordinators(self.shown))


def read_told(gathered: bytes) -> Told:
    """What is in a peer's message to its group: bandwidth, mode, and the `gather` of the round.

    Something else counts as a step that nobody is at, without a pass.
    """
    try:
        step, shown, assists, seen, *_ = MSGPackSerializer.loads(MSGPackSerializer.loads(gathered)[2])
        return Told(int(step), bytes(shown), assists is True, int(seen))
    except Exception:
        return Told(-1, b"", False)


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


def narrowed(group: GroupInfo, members: Collection[PeerID]) -> GroupInfo:
    """The group with these members only; all who keep the same ones come to the same result."""
    kept = [i for i, peer_id in enumerate(group.peer_ids) if peer_id in members]
    return GroupInfo(group.group_id, tuple(group.peer_ids[i] for i in kept), tuple(group.gathered[i] for i in kept))
