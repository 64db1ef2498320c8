"""Rounds whose parts follow the lines of the members.

What this changes in hivemind's `DecentralizedAverager`:
- parts are as the lines of the members carry them (`sharing.py`), which are measured in every round
  (`lines/measured.py`) and when a state is downloaded. Upstream's are equal, or follow one number for each peer that
  somebody types.
- whose line carries less than its owner says is found out by the others (`lines/late.py`).
- commands arrive whole (`swarm/hivemind_patches/whole_messages.py`).
- streams are as fast as the thinnest line of those who need them, and nobody waits for a peer that has fallen
  silent (`runner.py`).
"""

import functools
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hivemind.averaging import DecentralizedAverager
from hivemind.averaging.group_info import GroupInfo
from hivemind.averaging.matchmaking import MatchmakingException
from hivemind.compression import CompressionInfo
from hivemind.utils import get_logger
from hivemind.utils.asyncio import enter_asynchronously

from swarm.gate import Gate
from swarm.hivemind_patches.whole_messages import WholeMessages
from trainer.averaging.lines.late import Memory, believed, blamed, carried
from trainer.averaging.lines.measured import OwnLine
from trainer.averaging.roles import Assigned, SwarmStep, assigned
from trainer.averaging.runner import longest_silence
from trainer.averaging.sharing import Sharing, chunk_bytes, shared
from trainer.averaging.told import Told, Word, is_client, read_told, with_lines
from trainer.averaging.witness import waits

logger = get_logger(__name__)


class SharingAverager(WholeMessages, DecentralizedAverager):
    """hivemind's averager, with the changes above.

    Args:
        own_line: what is known of this peer's line.
        swarm_step: what the swarm does in each; None: its members have no roles, or not all of it is one group.
    """

    gate: Gate | None

    def __init__(self, *args: Any, own_line: OwnLine, swarm_step: SwarmStep | None = None, **kwargs: Any):
        self.own_line, self.swarm_step = own_line, swarm_step
        self._memory = Memory()
        super().__init__(*args, **kwargs)

    def _with_lines(self, gathered: bytes) -> bytes:
        """What this peer tells its group, with what is known of lines; only the averager's process knows that."""
        return with_lines(gathered, self.own_line.upload, self.own_line.download, self._memory.words())

    async def _reduce(self, kept: GroupInfo, min_vector_size: int, **kwargs: Any) -> None:
        """What upstream's `_aggregate_with_group` does, with parts as `sharing.py` has them."""
        began = time.monotonic()
        try:
            sharing = self._shared(kept)
            kwargs["part_size_bytes"] = chunk_bytes(self._wire_bytes)
            kwargs["upload"] = self.own_line.upload
            kwargs["silence"] = longest_silence(sharing.seconds, kwargs["sender_timeout"])
            async with self.own_line.measured(self._p2p), enter_asynchronously(self.get_tensors()) as tensors:
                await self._run_allreduce_inplace_(tensors, kept, peer_fractions=sharing.parts, **kwargs)
        except BaseException as error:
            if isinstance(error, Exception):
                logger.exception(error)
            raise MatchmakingException(f"Unable to run All-Reduce: {error}") from error
        await self._learn_from(kept, sharing, began)

    async def _learn_from(self, kept: GroupInfo, sharing: Sharing, began: float) -> None:
        """Whose line made the round late."""
        took = time.monotonic() - began
        self._memory.next_round()
        late = None
        if sharing.seconds is not None:
            late = blamed(waits(await self._running_groups[kept.group_id], began), took, sharing.seconds)
        if late is not None:
            share = sharing.parts[kept.peer_ids.index(late.peer)] / self.total_size
            speed = carried(share, len(kept.peer_ids), self._wire_bytes) / took
            self._memory.note(Word(late.peer.to_bytes(), speed, late.as_sender))
            logger.debug(f"{took:.1f} s instead of {sharing.seconds:.1f}, {late.seconds:.1f} of them for {late.peer}")

    def _shared(self, kept: GroupInfo) -> Sharing:
        """Who averages what in this round."""
        return shared(*self._said(kept), self.total_size, self._wire_bytes)

    def _assigned(self, kept: GroupInfo) -> Assigned | None:
        """What this peer does from now on."""
        if self.swarm_step is None:
            return None
        own = kept.peer_ids.index(self.peer_id)
        return assigned(*self._said(kept), own, self.swarm_step, self.total_size, self._wire_bytes)

    def _said(self, kept: GroupInfo) -> tuple[Sequence[Told], Sequence[bool]]:
        """What the members of a group are believed to have told, and who of them accepts no connections."""
        told = {peer: read_told(words) for peer, words in zip(kept.peer_ids, kept.gathered, strict=True)}
        told = {peer: replace(one, assists=one.is_coordinators(self.gate)) for peer, one in told.items()}
        return believed(told), [is_client(words) for words in kept.gathered]

    @functools.cached_property
    def _wire_bytes(self) -> float:
        """Of the whole vector as it travels."""
        tensors, kind = self._averaged_tensors, self.allreduce_kwargs["compression"]
        infos = self.tensor_infos or [CompressionInfo.from_tensor(one, key=i) for i, one in enumerate(tensors)]
        sizes = [one.numel() * one.element_size() for one in tensors]
        return math.fsum(size * kind.estimate_compression_ratio(info) for size, info in zip(sizes, infos, strict=True))
