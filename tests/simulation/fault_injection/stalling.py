"""Members with a real pass that hold rounds up, each in one way; and honest ones that are slow, for comparison."""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from averaging.log.header import Ballot
from averaging.protocol.messages import Call, Chunk, Meet, Message, Piece, Plan, Reduced, Reducing, Refused, Vote
from tests.simulation.process import Process

EVERY = 1.0  # seconds between two of the words that a staller says all the time
TRICKLE = 80.0  # seconds that its piece takes


class Staller:
    """What a process says is what its machine says, but for what a method of this one keeps back or adds."""

    def __init__(self, process: Process):
        self.process, self.world = process, process.world

    def silent_in_meetings(self) -> None:
        """Reports progress, and answers no Meet."""
        self._keeps_back(lambda message: isinstance(message, Call))

    def silent_in_every_other_meeting(self) -> None:
        """Answers as often as keeps it from having missed two rounds in a row."""
        self._keeps_back(lambda message: isinstance(message, Call) and self._step % 2 == 0)

    def sends_no_pieces(self) -> None:
        """Calls with gradients that never come."""
        self._keeps_back(lambda message: isinstance(message, Piece))

    def keeps_one_piece(self) -> None:
        """Sends all but one, so that it is in each header."""
        self._keeps_back(lambda message: isinstance(message, Piece) and message.chunk == 0)

    def reduces_nothing(self) -> None:
        """Takes a part, and is silent."""
        self._keeps_back(self._is_of_reducer)

    def reduces_for_ever(self) -> None:
        """Takes a part, and says that pieces are coming in."""
        self._keeps_back(self._is_of_reducer)
        self._repeat(self._says_that_pieces_come)

    def keeps_its_means(self) -> None:
        """Names the means of its part, and gives them to nobody."""
        self._keeps_back(lambda message: isinstance(message, Chunk))

    def misses_somebody_unknown(self) -> None:
        """Says that a piece of a session is missing that is no member: voters would object to a header that says so."""
        self._misses(lambda result: (("nobody.0", result.assignment.first),))

    def misses_pieces_of_others_parts(self) -> None:
        """Says that an honest member has sent the other reducers nothing."""
        victim = next(one.session for one in self.world.living() if one.speed and one is not self.process)

        def missing(result: Reduced) -> tuple[tuple[str, int], ...]:
            first, count = result.assignment.first, result.assignment.count
            return tuple((victim, chunk) for chunk in range(first + count, first + count + 4))

        self._misses(missing)

    def leaves_out_all_others(self) -> None:
        """As if nobody's pieces had come: its part of the mean is its own gradient."""
        self.process.hears = lambda sender, message: isinstance(message, Piece)

    def never_votes(self) -> None:
        """Promises, and accepts nothing."""
        self._keeps_back(lambda message: isinstance(message, Vote))

    def raises_ballots(self) -> None:
        """Convenes, whoever leads, and never goes on with a meeting."""
        self._keeps_back(lambda message: isinstance(message, Plan | Meet))
        self._repeat(self._opens_a_ballot, every=4.0)

    def only_claims_to_convene(self) -> None:
        """Says so all the time, and that the batch is not there."""
        self._keeps_back(lambda message: isinstance(message, Plan | Meet))
        self._repeat(self._claims_to_convene)

    def refuses(self) -> None:
        """Says to have promised a higher ballot, whatever it is asked for."""

        def hears(sender: str, message: Message) -> bool:
            if isinstance(message, Meet):
                higher = Ballot(message.ballot.number + 1, self.process.session)
                self._say(sender, Refused(message.ballot, higher))
            return isinstance(message, Meet)

        self.process.hears = hears

    def trickles(self, seconds: float = TRICKLE) -> None:
        """Each of its pieces comes byte by byte; the line of an honest peer may be as thin."""

        def says(to: str, message: Message) -> bool:
            if not isinstance(message, Piece):
                return True
            receiver = self.world.processes[to]
            for second in range(int(seconds / EVERY)):
                self.world.after(second * EVERY, self._moves, receiver)
            payload = self.process.exchange.payload(self.process.machine, message)
            self.world.after(seconds, partial(self.world.send, self.process, to, message, payload))
            return False

        self.process.says = says

    # -- how

    def _misses(self, what: Callable[[Reduced], tuple[tuple[str, int], ...]]) -> None:
        def says(to: str, message: Message) -> bool:
            if not isinstance(message, Reduced) or message.missing == what(message):
                return True
            self._say(to, replace(message, missing=what(message)))
            return False

        self.process.says = says

    def _keeps_back(self, what: Callable[[Message], bool]) -> None:
        self.process.says = lambda to, message: not what(message)

    def _repeat(self, what: Callable[[], None], every: float = EVERY) -> None:
        def again() -> None:
            what()
            self.world.after(every, again)

        again()

    @property
    def _step(self) -> int:
        chain = self.process.machine.log.chain
        return -1 if chain is None else chain.tip.step

    def _say(self, to: str, message: Message) -> None:
        self.world.send(self.process, to, message, None)

    @staticmethod
    def _is_of_reducer(message: Message) -> bool:
        return isinstance(message, Reduced | Reducing | Chunk)

    def _claims_to_convene(self) -> None:
        machine = self.process.machine
        for other in machine.others:
            self._say(other, replace(machine.progress.status(self.world.now), convenes=True, gathered=0))

    def _says_that_pieces_come(self) -> None:
        plan = self.process.machine.reducing.plan
        if plan is None:
            return
        for part in plan.parts:
            if part.reducer == self.process.session:
                self._say(plan.ballot.convener, Reducing(plan.ballot, part.first, part.attempt))

    def _opens_a_ballot(self) -> None:
        machine = self.process.machine
        if machine.log.chain is not None:
            ballot, tip = machine.voting.new_ballot(), machine.log.tip
            for one in self.world.living():
                if one is not self.process:
                    self._say(one.session, Meet(tip.digest, ballot))

    def _moves(self, receiver: Process) -> None:
        if receiver.is_alive:
            receiver.machine.moving(self.process.session, self.world.now)
            receiver.carry_out()
