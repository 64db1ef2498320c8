"""What one process exchanges in a round: pieces of its own and of others, and the means of them, as symbols."""

from collections import defaultdict
from typing import Any

from averaging.log.header import Ballot
from averaging.protocol.actions import Average
from averaging.protocol.buffers import Buffers
from averaging.protocol.messages import Chunk, Message, Piece, Plan
from averaging.protocol.peer import LogPeer
from tests.simulation.state import Replay, digest_of


class Exchange:
    """A piece is a tuple of batches. A mean names the instance, the chunk, and the pieces that it was made of."""

    def __init__(self, replay: Replay):
        self._replay = replay
        self._batches: defaultdict[int, list[Any]] = defaultdict(list)  # gradients, by number of the buffer
        self._pieces: dict[tuple[Any, ...], Any] = {}

    def add(self, batch: Any, number: int) -> None:
        """A batch was computed; its gradient goes into a buffer."""
        self._batches[number].append(batch)

    def batches_in(self, buffers: Buffers, number: int) -> list[Any]:
        """The gradients in a closed buffer; none if a header has taken it."""
        return self._batches[number] if number in buffers.closed else []

    def take(self, sender: str, message: Message, payload: Any) -> None:
        """Keep what comes with a message.

        The transport has checked that a chunk has the digest that it is sent under.
        """
        if isinstance(message, Chunk):
            self._replay.contents[message.digest] = payload
        elif isinstance(message, Piece):
            self._pieces[sender, message.ballot, message.chunk, message.attempt] = payload

    def payload(self, machine: LogPeer, message: Message) -> Any:
        """What goes with a message."""
        if isinstance(message, Chunk):
            return self._replay.contents[message.digest]
        if isinstance(message, Piece):
            assert machine.reducing.plan is not None
            return self._own_piece(machine, machine.reducing.plan)
        return None

    def average(self, machine: LogPeer, action: Average, now: float) -> None:
        """Make the mean that a machine asks for, and tell it."""
        plan, pieces = action.plan, []
        for sender in action.senders:
            is_own = sender == machine.me.session
            name = sender, plan.ballot, action.chunk, action.attempt
            pieces.append((sender, self._own_piece(machine, plan) if is_own else self._pieces[name]))
        content = (plan.instance, action.chunk, tuple(pieces))
        digest = digest_of(content)
        self._replay.contents[digest] = content
        machine.averaged(action, digest, now)

    def forget_pieces(self, decided: Ballot) -> None:
        """Keep only those of later ballots."""
        self._pieces = {name: piece for name, piece in self._pieces.items() if name[1] > decided}

    def _own_piece(self, machine: LogPeer, plan: Plan) -> tuple[Any, ...]:
        numbers = plan.buffers_of(machine.me.session)
        return tuple(batch for number in numbers for batch in self.batches_in(machine.buffers, number))
