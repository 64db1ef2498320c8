"""What peers exchange in a round: their own pieces, those of others, and the means of them; and chunks of all kinds."""

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

from averaging.log.header import Ballot
from averaging.moshpit.group_round import step_of
from averaging.moshpit.peer import GroupPeer
from averaging.protocol.actions import Audit, Average, Observe
from averaging.protocol.messages import Chunk, Message, Piece, Plan, Receipt, ShownAccount, ShownPiece
from averaging.protocol.peer import LogPeer
from averaging.protocol.rounds.pieces import Pieces
from averaging.reduce.agreement import agreements, on_average
from averaging.reduce.gradient_codec import encoded_bytes, piece_bytes, with_weight
from averaging.reduce.reducer import EncodedMean, average
from averaging.shell.audit import Auditor, Comparison, OwnPart, Verdict
from averaging.shell.locked_machine import LockedMachine, Machine
from averaging.shell.proofs import Proofs
from averaging.shell.replay import Replay
from averaging.transport.wire_format import LONGEST_BYTES
from swarm.errors import StorageError

logger = logging.getLogger(__name__)

LARGEST_ACCOUNT = 2**20  # bytes; a receipt has some 700


class Exchange:
    """Takes in and makes what one peer exchanges, in the event loop's thread. Averaging itself is done aside.

    What others send is kept as far as it is needed and there is room for it.
    """

    def __init__(self, locked: LockedMachine, replay: Replay, aside: Executor):
        self._locked, self._replay, self._store, self._aside = locked, replay, replay.store, aside
        self._pieces = Pieces[bytes](locked.gradients.grid.count)
        self._has_room = True  # for the last chunk there was
        self._round: Ballot | None = None
        self._signs = locked.settings.robust != "off" and locked.is_log
        self.proofs = Proofs(locked.credentials, locked.gradients.grid)
        self._own_part, self._auditor = OwnPart(), Auditor(locked)
        self._shown: dict[ShownPiece | ShownAccount, dict[str, bytes]] = {}  # to the open audit, by session
        self._pushed: Counter[str] = Counter()  # chunks by reducer that nobody has asked for, in this round

    # -- what others send

    def takes(self, sender: str, message: Message, payload: bytes, now: float) -> bool:
        """Keep what comes with a message; False: it is of no use, so the machine is not to hear of it.

        The transport has checked that a chunk has the digest that it is sent under.
        """
        match message:
            case Chunk(digest):
                return self._is_expected(sender, digest, len(payload)) and self._keeps_chunk(digest, payload, now)
            case Piece():
                return self._is_due(message.ballot) and self._keeps_piece(sender, message, payload)
            case ShownPiece() | ShownAccount():
                machine = self._locked.machine
                expected = isinstance(machine, LogPeer) and machine.auditing.expects(sender, message)
                if not expected or len(payload) > self._most_shown(message):
                    return False
                self._shown.setdefault(message, {})[sender] = payload
                return True
        return True

    def _most_shown(self, message: ShownPiece | ShownAccount) -> int:
        """Bytes of an answer to an audit."""
        if isinstance(message, ShownAccount):
            return LARGEST_ACCOUNT
        locked = self._locked.gradients
        return piece_bytes(locked.grid.size(message.chunk), locked.kind) + LONGEST_BYTES

    def forget_pieces(self, decided: Ballot) -> None:
        """Keep only those of later ballots."""
        self._pieces.keep_only(lambda ballot: ballot > decided)

    def _is_expected(self, sender: str, digest: str, size: int) -> bool:
        """Whether a chunk was asked for, or may be of the update that a reducer of the open round is sending.

        Its digest says nothing then: nobody knows it before the header. So each reducer has room for its part, and for
        as much again.

        Args:
            size: of the chunk, in bytes.
        """
        machine = self._locked.machine
        if digest in machine.fetching.wanted or self._store.has(digest):
            return True
        plan, grid = machine.reducing.plan, self._locked.gradients.grid
        if plan is None or size > encoded_bytes(grid.chunk_elements, self._locked.kind(plan.ballot)):
            return False
        if plan.ballot != self._round:
            self._round, self._pushed = plan.ballot, Counter()
        self._pushed[sender] += 1
        return self._pushed[sender] <= 2 * sum(part.count for part in plan.parts if part.reducer == sender)

    def _keeps_chunk(self, digest: str, content: bytes, now: float) -> bool:
        """Whether there is room for it and, if it is a manifest, whether its snapshot can be loaded."""
        machine, fetching = self._locked.machine, self._locked.machine.fetching
        try:
            chunks = self._replay.checked(content).chunks if fetching.is_snapshot(digest) else None
            self._store.put(digest, content)
        except ValueError as error:
            self._locked.cannot_load(machine, digest, error, now)
            return False
        except StorageError as error:  # it will be asked for again
            if self._has_room:
                logger.warning("what others send cannot be kept: %s", error)
            self._has_room = False
            return False
        self._has_room = True
        if chunks is not None:
            with self._locked.lock:
                fetching.consists_of(digest, chunks, now)
        return True

    def _is_due(self, ballot: Ballot) -> bool:
        """Whether there may be a plan of this ballot in which this peer reduces: then it has called in it.

        Otherwise pieces of ballots that never come would be kept for good.
        """
        machine = self._locked.machine
        if isinstance(machine, GroupPeer):
            return step_of(ballot.number) <= (machine.step or 0) + 1  # groups of a step are not all as fast
        promised = machine.voting.voter.promised
        return promised is not None and ballot <= promised

    def _keeps_piece(self, sender: str, piece: Piece, content: bytes) -> bool:
        """Whether there is such a piece, and room for it."""
        grid, kind = self._locked.gradients.grid, self._locked.kind(piece.ballot)
        if not 0 <= piece.chunk < grid.count:
            return False
        beyond = len(content) - piece_bytes(grid.size(piece.chunk), kind)
        if not 0 <= beyond <= (LONGEST_BYTES if self._signs else 0):  # a signature
            return False
        return self._pieces.keep(sender, piece, content)

    # -- what this peer sends

    def sent_piece(self, plan: Plan, chunk: int) -> bytes | None:
        """What it brings to a chunk, signed where others may ask for it later; None if that round is over."""
        with self._locked.lock:
            machine = self._locked.machine
            numbers = plan.buffers_of(machine.me.session)
            if isinstance(machine, GroupPeer) and (mean := machine.group_step.carried(numbers)) is not None:
                content = self._store.get(mean.chunks[chunk])
                return None if content is None else with_weight(content, mean.weight)
            newest = machine.reducing.plan
            if newest is None or newest.ballot != plan.ballot:
                return None  # decided or given up already: this peer signs no second piece of a ballot
            if isinstance(machine, LogPeer) and not machine.buffers.closed.keys() >= set(numbers):
                return None  # a plan of what this peer has not offered
            try:
                piece = self._locked.gradients.piece(numbers, chunk)
            except (LookupError, ValueError) as error:
                logger.debug("no piece of chunk %d: %s", chunk, error)
                return None
        return self.proofs.piece(machine.me.session, plan, chunk, piece) if self._signs else piece

    def chunk(self, to: str, digest: str) -> bytes | None:
        """One that is sent to a peer; None if it is not needed any more: a thin line has better things to carry."""
        with self._locked.lock:
            is_known = self._locked.machine.reducing.has_mean(to, digest)
        return None if is_known else self._store.get(digest)

    async def average(self, machine: Machine, action: Average, carry_out: Callable[[], None]) -> None:
        """Make the mean that a machine asks for, and tell it."""
        plan, chunk = action.plan, action.chunk
        name = Piece(plan.ballot, chunk, action.attempt)
        pieces = []
        for sender in action.senders:
            is_own = sender == machine.me.session
            piece = self.sent_piece(plan, chunk) if is_own else self._pieces.of(sender).get(name)
            if piece is not None:
                pieces.append((sender, piece))
        grid, kind = self._locked.gradients.grid, self._locked.kind(plan.ballot)
        robust = "off" if isinstance(machine, GroupPeer) else self._locked.settings.robust
        loop = asyncio.get_running_loop()
        try:
            users = {one.session: one.user for one in plan.members}
            receipts: tuple[Receipt, ...] = ()
            if self._signs:
                check = partial(self.proofs.received, plan, chunk, pieces, kind)
                pieces, receipts = await loop.run_in_executor(self._aside, check)
            excluded = set(action.senders).difference(sender for sender, _ in pieces)
            weights = {one.session: one.weight for one in plan.members}
            work = partial(average, grid, kind, pieces, chunk, weights, robust, users, plan.on_probation)
            mean: EncodedMean = await loop.run_in_executor(self._aside, work)
            digest = hashlib.sha256(mean.encoded).hexdigest()
            self._store.put(digest, mean.encoded)
        except (ValueError, StorageError) as error:
            logger.warning("chunk %d of %s cannot be averaged: %s", chunk, plan.ballot, error)
            with self._locked.lock:
                machine.reducing.cannot_average(action)
            return
        excluded.update(mean.excluded)
        if self._signs:
            self.proofs.summed(machine.me.session, plan, chunk, digest, receipts, excluded)
            if machine.me.is_coordinator:
                averaged = {sender: piece for sender, piece in pieces if sender not in excluded}
                compare = partial(agreements, grid.size(chunk), kind, averaged, weights, users, plan.on_probation)
                self._own_part.averaged(plan.ballot, chunk, digest, compare)
        with self._locked.lock:
            machine.averaged(action, digest, loop.time(), sorted(excluded), mean.loud)
        carry_out()

    async def audit(self, action: Audit, tell: Callable[[Verdict], None]) -> None:
        """Sum a chunk again, from what was shown."""
        name = action.header.previous, action.header.ballot, action.chunk
        pieces = self._shown.get(ShownPiece(*name), {})
        account = next(iter(self._shown.get(ShownAccount(*name), {}).values()), None)
        self._shown.clear()
        work = partial(self._auditor.judge, action, pieces, account)
        tell(await asyncio.get_running_loop().run_in_executor(self._aside, work))

    async def observe(self, action: Observe, tell: Callable[[Comparison], None]) -> None:
        """Compare pieces of the part that this peer has reduced, chunk by chunk: means of the next round go between."""
        loop = asyncio.get_running_loop()
        found = [await loop.run_in_executor(self._aside, compare) for compare in self._own_part.of(action.header)]
        if found:
            tell(Comparison(action.header, on_average(found), action.users))
