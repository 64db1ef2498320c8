"""The numbers of a round: the pieces of this peer's gradients, and the means that it makes of those of others."""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

from averaging.moshpit.peer import GroupPeer
from averaging.protocol.actions import Average
from averaging.protocol.messages import Plan
from averaging.reduce.pieces import with_weight
from averaging.reduce.reducer import EncodedMean, Reducer
from averaging.shell.arrivals import Arrivals, PieceName
from averaging.shell.guarded import Guarded, Machine
from averaging.shell.replay import Contents
from swarm.errors import StorageError

logger = logging.getLogger(__name__)


class Means:
    """Of one peer; for the thread of the event loop. Averaging itself is done aside."""

    def __init__(self, guarded: Guarded, arrivals: Arrivals, contents: Contents, aside: Executor):
        self._guarded, self._arrivals, self._contents, self._aside = guarded, arrivals, contents, aside

    def own_piece(self, plan: Plan, chunk: int) -> bytes | None:
        """What this peer brings to a chunk; None if that round is over."""
        with self._guarded.lock:
            machine = self._guarded.machine
            numbers = plan.buffers_of(machine.me.session)
            if isinstance(machine, GroupPeer) and (mean := machine.open_step.carried(numbers)) is not None:
                content = self._contents.get(mean.chunks[chunk])
                return None if content is None else with_weight(content, mean.weight)
            try:
                return self._guarded.gradients.piece(numbers, chunk)
            except (LookupError, ValueError) as error:
                logger.debug("no piece of chunk %d: %s", chunk, error)
                return None

    async def make(self, machine: Machine, action: Average, carry_out: Callable[[], None]) -> None:
        """Average what a machine asks for, and tell it."""
        plan, chunk, attempt = action.plan, action.chunk, action.attempt
        name = PieceName(plan.ballot, chunk, attempt)
        pieces = []
        for sender in action.senders:
            is_own = sender == machine.me.session
            piece = self.own_piece(plan, chunk) if is_own else self._arrivals.piece(sender, name)
            if piece is not None:
                pieces.append((sender, piece))
        excluded = set(action.senders).difference(sender for sender, _ in pieces)
        reducer = Reducer(self._guarded.gradients.grid, self._guarded.kind(plan.ballot))
        work = partial(reducer.average, pieces, chunk, plan.weights_by_session())
        loop = asyncio.get_running_loop()
        try:
            mean: EncodedMean = await loop.run_in_executor(self._aside, work)
            digest = hashlib.sha256(mean.encoded).hexdigest()
            self._contents.put(digest, mean.encoded)
        except (ValueError, StorageError) as error:
            logger.warning("chunk %d of %s cannot be averaged: %s", chunk, plan.ballot, error)
            with self._guarded.lock:
                machine.cannot_average(plan.ballot, chunk, attempt)
            return
        excluded.update(mean.excluded)
        with self._guarded.lock:
            machine.averaged(plan.ballot, chunk, attempt, digest, loop.time(), sorted(excluded))
        carry_out()
