"""The invariants of the log, checked by somebody who sees everything, after each event that could break one.

The oracle has rules of its own: it uses none of the decisions that it checks.
"""

from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from averaging.log import credit
from averaging.log.header import Ballot, Entry, Header, HeaderKind
from averaging.protocol.actions import Apply, Load
from averaging.protocol.catching_up.catching_up import AHEAD, DOUBT
from averaging.protocol.commit.voting import Voter
from averaging.protocol.messages import Accepted, Log

if TYPE_CHECKING:
    from tests.simulation.process import Process


MOST_VOTERS = 9  # as the protocol has it


def loss_of(batch: int) -> float:
    """Of each masked token in a batch."""
    return float(batch % 8)


class Violation(Exception):
    """An invariant does not hold."""


class Oracle:
    """All that has happened, of one run."""

    def __init__(self, chunks: int, snapshot_every: int, window: int):
        self._chunks, self._snapshot_every, self._window = chunks, snapshot_every, window
        self._most_held = chunks * (4 * snapshot_every + 20)
        self.headers: dict[str, Header] = {}  # that anybody has applied
        self._chosen: dict[str, str] = {}  # voted header by the digest of the one before it
        self._votes: dict[tuple[str, Any, str], set[str]] = {}  # sessions by instance, ballot and header
        self._said_goodbye: set[str] = set()
        self._states: dict[str, Any] = {}
        self._weights: list[int] = []  # of batches
        self._in_headers: dict[int, list[str]] = {}  # digests of headers by batch
        self.commits = 0
        self.resets = 0
        self.adopted = 0  # snapshots of processors with other bits
        self.last_commit = 0.0

    # -- what happens

    def watched(self, processes: Mapping[str, "Process"]) -> type[Voter]:
        """The class of voters, with this oracle looking on."""
        oracle = self

        class WatchedVoter(Voter):
            def accept(self, ballot: Ballot, header: Header) -> bool:
                accepts = super().accept(ballot, header)
                if accepts:
                    oracle.voted(processes[self.session], self.instance, Accepted(ballot, header))
                return accepts

        return WatchedVoter

    def new_batch(self, session: str, weight: int) -> int:
        """A number for a batch that was computed."""
        self._weights.append(weight)
        return len(self._weights) - 1

    def said_goodbye(self, session: str) -> None:
        """A session has left for good."""
        self._said_goodbye.add(session)

    def voted(self, process: "Process", instance: str, accepted: Accepted) -> None:
        """A voter has accepted something: it holds all of it."""
        if instance != accepted.header.previous:
            raise Violation(f"{process.session} voted in another decision than the one that it was asked about")
        for digest in _needed(accepted.header):
            if digest not in process.replay.contents:
                raise Violation(f"{process.session} voted for step {accepted.header.step} without holding {digest}")
        if process.session not in process.world.cheats:
            self._check_voters(process, accepted.header)
        key = instance, accepted.ballot, accepted.header.digest
        self._votes.setdefault(key, set()).add(process.session)
        if self._has_votes(accepted.header, accepted.ballot):
            self._note_chosen(accepted.header)

    def _has_votes(self, header: Header, ballot: Ballot, goodbyes: Collection[str] = ()) -> bool:
        """Whether a quorum has voted for a header in one ballot, whether somebody has heard of that or not."""
        previous = self.headers.get(header.previous)
        if previous is None or header.kind is HeaderKind.RESET:
            return False
        votes = self._votes.get((header.previous, ballot, header.digest), set())
        voters = set(previous.voters) - set(goodbyes)
        if ballot.convener == previous.tie_breaker and ballot.convener in votes:
            return len(votes & voters) * 2 >= len(voters)
        return len(votes & voters) * 2 > len(voters)

    def _note_chosen(self, header: Header) -> None:
        if self._chosen.setdefault(header.previous, header.digest) != header.digest:
            raise Violation(f"two headers are chosen for step {header.step}")

    def check_committed(self, entry: Entry) -> None:
        """Somebody says that a header is committed: real votes are behind it, and they are enough."""
        header, ballot = entry.header, entry.certificate.ballot
        previous = self.headers.get(header.previous)
        if previous is None:
            raise Violation(f"step {header.step} follows a header that was never applied")
        if header.kind is HeaderKind.RESET:
            if not ballot.convener.startswith("coordinator."):
                raise Violation(f"{ballot.convener} has reset the run without being its coordinator")
            return
        gone = {one.session for one in entry.certificate.goodbyes}
        if not gone <= self._said_goodbye:
            raise Violation(f"step {header.step} counts goodbyes that were never said")
        if not set(entry.certificate.votes) <= {*previous.voters, ballot.convener}:
            raise Violation(f"step {header.step} shows votes of sessions that do not decide")
        if not self._has_votes(header, ballot, gone):
            raise Violation(f"step {header.step} is said to be committed without a quorum of votes")

    def applied(self, process: "Process", entry: Entry) -> None:
        """A peer has applied a header."""
        header = entry.header
        self.check_committed(entry)
        if header.kind is not HeaderKind.RESET:
            self._note_chosen(header)
        self.check_state(header, process.replay.state)
        if header.digest not in self.headers:
            self.headers[header.digest] = header
            self.commits += 1
            self.resets += header.kind is HeaderKind.RESET
            self.last_commit = process.world.now
            self._check_batches(process, header)

    def check_state(self, header: Header, state: Any) -> None:
        """Equal headers are equal states."""
        if self._states.setdefault(header.digest, state.exact) != state.exact:
            raise Violation(f"two peers have different states after the same header of step {header.step}")

    def began(self, entry: Entry, state: Any) -> None:
        """The run has a first header."""
        self.headers[entry.header.digest] = entry.header
        self.check_state(entry.header, state)

    def loaded(self, process: "Process", entry: Entry) -> None:
        """A peer has loaded a snapshot instead of applying headers."""
        if entry.header.digest not in self.headers:
            raise Violation("a snapshot belongs to a header that was never applied")
        self.check_state(entry.header, process.replay.state)

    def rejoins(self, process: "Process", log: Log) -> None:
        """A peer leaves its chain for another: where they part, its own one was reset."""
        assert process.machine.log.chain is not None
        ours = list(self._ancestors(process.machine.log.chain.tip.digest))
        tip = log.entries[-1].header
        missing = [entry.header for entry in log.entries if entry.header.digest not in self.headers]
        if missing:
            raise Violation(f"{process.session} rejoins a chain with a header that was never applied")
        theirs = {header.digest for header in self._ancestors(tip.digest)}
        dropped = [header for header in ours if header.digest not in theirs]  # newest first
        if not dropped:
            raise Violation(f"{process.session} rejoins a chain that contains its own")
        if dropped[-1].kind is not HeaderKind.RESET:
            raise Violation(f"{process.session} drops step {dropped[-1].step}, which was applied and voted for")

    # -- what headers say

    def _ancestors(self, digest: str) -> Iterator[Header]:
        """A header and those before it, newest first."""
        while digest in self.headers:
            yield self.headers[digest]
            digest = self.headers[digest].previous

    def _check_batches(self, process: "Process", header: Header) -> None:
        included: dict[str, list[tuple[int, ...]]] = {}  # batches of each sender, a tuple for each chunk that has it
        for content in process.replay.update_of(header):
            _, _, pieces = content
            for sender, batches in pieces:
                included.setdefault(sender, []).append(batches)
        credited = {one.session: (one.tokens, one.samples) for one in credit.contributions(header)}
        brought: dict[str, tuple[Fraction, Fraction]] = {}
        for sender, pieces in included.items():
            if len(set(pieces)) != 1:
                raise Violation(f"{sender} sent other batches to one reducer than to another")
            weight = sum(self._weights[batch] for batch in pieces[0])
            if len(pieces) and weight:
                share = Fraction(len(pieces), len(header.chunks))
                brought[sender] = weight * share, weight * share
                self._check_loss(header, sender, pieces[0])
        cheats = header.ballot.convener in process.world.cheats  # it may be the only voter
        if credited != brought and not cheats:
            raise Violation(f"step {header.step} credits {credited}, and includes {brought}")
        for batches in {piece for pieces in included.values() for piece in pieces}:
            self._check_once(header, batches)

    def _check_loss(self, header: Header, sender: str, batches: tuple[int, ...]) -> None:
        losses = {member.session: member.loss for member in header.members}
        if sender not in losses:
            return  # it gets no credit either, which is found out
        told = losses[sender]
        weights = [self._weights[batch] for batch in batches]
        loss = sum(weight * loss_of(batch) for batch, weight in zip(batches, weights, strict=True)) / sum(weights)
        if told is None or abs(told - loss) > 1e-9:
            raise Violation(f"step {header.step} says that {sender} has a loss of {told} instead of {loss}")

    def _check_once(self, header: Header, batches: tuple[int, ...]) -> None:
        if len(set(batches)) != len(batches):
            raise Violation(f"step {header.step} includes a batch twice")
        for batch in batches:
            earlier = self._in_headers.setdefault(batch, [])
            if earlier and any(one.digest in earlier for one in self._ancestors(header.previous)):
                raise Violation(f"step {header.step} includes a batch that an earlier step of its chain has")
            earlier.append(header.digest)

    def check_ledger(self, process: "Process", header: Header) -> None:
        """The coordinator's ledger has what a header credits, whatever else was credited for that step."""
        assert process.journal is not None
        entered = process.journal.ledger.of_header(header.digest)
        expected = {one.session: one.tokens for one in credit.contributions(header)}
        if entered != expected:
            raise Violation(f"the ledger has {entered} of a header of step {header.step} that credits {expected}")

    def check_whole_ledger(self, process: "Process", living: Collection["Process"]) -> None:
        """A coordinator has credited every header of its chain, as far back as somebody can tell it."""
        chains = [one.machine.log.chain for one in living]
        assert process.journal is not None
        held = {entry.header.digest for chain in chains if chain is not None for entry in chain.since(0)}
        held.update(record.entry.header.digest for record in process.journal.disk.log)
        assert process.machine.head is not None
        for header in self._ancestors(process.machine.head.digest):
            if header.digest not in held:
                return
            self.check_ledger(process, header)

    # -- whom peers believe

    def _check_voters(self, process: "Process", header: Header) -> None:
        """Who is to decide next follows from the chain, whatever its convener has made of it."""
        is_round = header.kind is HeaderKind.UPDATE
        credit_of = {one.session: one.weight if is_round else 1 for one in header.members}
        for earlier, _ in zip(self._ancestors(header.previous), range(self._window), strict=False):
            for member in earlier.members:
                if member.session in credit_of:
                    credit_of[member.session] += member.weight
        order = sorted((not one.reachable, -credit_of[one.session], one.session, one.user) for one in header.members)
        chosen: dict[str, str] = {}
        for _, tokens, session, user in order:
            if tokens and user not in chosen and len(chosen) < MOST_VOTERS:
                chosen[user] = session
        if not set(header.voters) <= process.world.processes.keys():
            raise Violation(f"{process.session} votes for step {header.step}, whose voters are made up")
        breaks_ties = header.tie_breaker
        previous = self.headers[header.previous].tie_breaker
        if set(header.voters) != set(chosen.values()) or not (
            breaks_ties == previous or breaks_ties.startswith("coordinator.")
        ):
            raise Violation(f"{process.session} votes for step {header.step}, whose convener has named its friends")

    def check_belief(self, process: "Process") -> None:
        """Nobody has anything against what an honest convener proposes."""
        objected = process.machine.voting.objected
        if objected is not None and "another snapshot" in objected[1] and process.world.other_bits:
            return  # until it has compared them
        if objected is not None and objected[0].ballot.convener not in process.world.cheats:
            raise Violation(
                f"{process.session} objects to step {objected[0].step} of an honest convener: {objected[1]}"
            )

    # -- bounds

    def check_bounds(self, process: "Process") -> None:
        """Memory does not grow with the length of a run."""
        fetching, chain, most = process.machine.fetching, process.machine.log.chain, self._most_held
        contents, aside = process.replay.contents, process.stepping.aside
        if len(fetching.held) > most or len(contents) > most:
            raise Violation(f"{process.session} holds {len(contents)} chunks, {most} at most are allowed")
        if len(fetching.wanted) > most + 64 * self._chunks:
            raise Violation(f"{process.session} asks for {len(fetching.wanted)} chunks")
        if sum(isinstance(action, Apply | Load) for action in aside) > AHEAD:
            raise Violation(f"{process.session} lets {len(aside)} actions pile up before a disk that hangs")
        if chain is not None and len(chain) > 4 * self._snapshot_every + 60:
            raise Violation(f"{process.session} holds {len(chain)} headers")
        self._check_forgotten(process)

    def _check_forgotten(self, process: "Process") -> None:
        """What is kept of sessions and digests goes when it can no longer matter."""
        machine, world = process.machine, process.world
        if machine._contacts.goodbyes and machine.log.chain is not None:
            tip, listed = machine.log.chain.tip, {one.session for one in world.contacts()}
            for session, goodbye in machine._contacts.goodbyes.items():
                if goodbye.farewell.step < tip.step and session not in tip.voters and session not in listed:
                    raise Violation(f"{process.session} remembers that {session} left at step {goodbye.farewell.step}")
        if machine.backfilling.gaps and not process.contact.is_coordinator:
            raise Violation(f"{process.session} looks for headers that only a coordinator needs")
        for _, asked_at in machine.catching_up._vain.values():
            if world.now > asked_at + 2 * DOUBT:
                raise Violation(f"{process.session} remembers whom it has asked long ago")
        for pieces in machine.reducing._arrived._by_sender.values():
            if len(pieces) > 2 * self._chunks:
                raise Violation(f"{process.session} remembers pieces of rounds that it does not know of")
        fetching = machine.fetching
        for digest in fetching._parts:
            if digest not in fetching.held and digest not in fetching.wanted:
                raise Violation(f"{process.session} keeps manifests of snapshots that it does not want")


def _needed(header: Header) -> tuple[str, ...]:
    if header.kind is HeaderKind.ROLLBACK and header.snapshot is not None:
        return (header.snapshot.digest,)
    return header.chunks
