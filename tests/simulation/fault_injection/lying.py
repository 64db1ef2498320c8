"""A member with a real pass that lies: about others, about itself, and about the log. It signs what it can sign."""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from averaging.log.chain import Chain
from averaging.log.header import (
    Ballot,
    Certificate,
    Entry,
    Farewell,
    Head,
    Header,
    HeaderKind,
    Member,
    Part,
    Reset,
    SnapshotName,
)
from averaging.protocol import credentials as signed
from averaging.protocol.buffers import Buffers
from averaging.protocol.commit import quorum
from averaging.protocol.messages import (
    Anchor,
    Chunk,
    Commit,
    Contact,
    Goodbye,
    Log,
    Message,
    Offer,
    Piece,
    Propose,
    Status,
    Want,
)
from averaging.protocol.messages import WantLog as AsksForLog
from tests.simulation.process import Process
from tests.simulation.state import State, digest_of
from tests.simulation.world import World

EVERY = 3.0  # seconds between two lies
AHEAD = 20  # steps that its log has more than the real one


class Liar:
    """Until the world is honest, or its process ends."""

    def __init__(self, world: World, process: Process):
        self._world, self._process, self._random = world, process, world.random
        self._contents: dict[str, object] = {}  # that it has made up, by digest
        self._count = 0
        process.hears = self.hears
        world.cheats.add(process.session)
        self._go_on()

    def _go_on(self) -> None:
        if not self._process.is_alive or self._world.is_honest:
            buffers = self._process.machine.buffers
            buffers.offer = partial(Buffers.offer, buffers)  # type: ignore[method-assign]
            self._process.hears = None
            return
        chain = self._process.machine.log.chain
        if chain is not None and not self._process.is_frozen and not self._is_alone(chain):
            lies: tuple[Callable[[Chain], Message | None], ...] = (
                self._goodbye,
                self._made_up_voters,
                self._own_coordinator,
                self._reset,
                self._commit,
                self._tie,
                self._gone,
                self._head,
                self._too_much,
                self._flood,
            )
            lie = lies[self._count % len(lies)]
            self._count += 1
            message = lie(chain)
            self._world.note(f"lies {self._process.session} {lie.__name__}")
            for one in self._world.living():
                if one is not self._process and message is not None:
                    self._say(one.session, message)
        self._world.after(EVERY * (0.5 + self._random.random()), self._go_on)

    def _is_alone(self, chain: Chain) -> bool:
        """Whether it decides alone as it is: the only voter, its own tie-breaker, or all that a coordinator finds."""
        users = {one.contact.user for one in self._world.living() if not one.contact.is_coordinator}
        return set(chain.tip.voters) <= {self._me} or chain.tip.tie_breaker == self._me or len(users) < 2

    def _say(self, to: str, message: Message, payload: object = None) -> None:
        self._world.send(self._process, to, message, payload)

    def hears(self, sender: str, message: Message) -> bool:
        """Answer in place of the machine, if it asks for what was made up."""
        chain = self._process.machine.log.chain
        if isinstance(message, AsksForLog) and chain is not None and not self._is_alone(chain):
            self._say(sender, self._log(chain))
            return True
        if isinstance(message, Want) and any(digest in self._contents for digest in message.digests):
            for digest in message.digests:
                if digest in self._contents:
                    self._say(sender, Chunk(digest), self._contents[digest])
            return True
        return False

    # -- lies about others

    @property
    def _me(self) -> str:
        return self._process.session

    def _forged(self) -> bytes:
        return self._process.credentials.sign(b"anything")

    def _goodbye(self, chain: Chain) -> Goodbye:
        """Of a voter that is there."""
        others = [one for one in chain.tip.voters if one != self._me] or [self._me]
        gone = Farewell(self._random.choice(others), chain.tip.digest, chain.tip.step, None, self._forged())
        return Goodbye(gone, None)

    def _next(self, chain: Chain, **fields: object) -> Header:
        """That nobody can object to, if its contacts are believed."""
        tip, settings = chain.tip, self._world.settings
        most = settings.most_samples
        members = (Member(self._me, self._process.contact.user, (0,), most, self._process.contact.reachable, most),)
        chunks = []
        for chunk in range(settings.chunks):
            content = tip.digest, chunk, ((self._me, ()),)
            chunks.append(digest_of(content))
            self._contents[chunks[-1]] = content
        plain: dict[str, object] = {
            "members": members,
            "parts": (Part(self._me, tuple(chunks)),),
            "voters": quorum.choose_voters(members, chain.last(quorum.WINDOW)),
            "tie_breaker": tip.tie_breaker,
            "snapshot": tip.snapshot,
            "resets": tip.resets,
        }
        ballot = Ballot(self._process.machine.voting.highest + 1, self._me)
        return Header(
            tip.run,
            tip.step + 1,
            HeaderKind.UPDATE,
            tip.digest,
            ballot,
            **{**plain, **fields},  # type: ignore[arg-type]
        )

    def _propose(self, header: Header, *contacts: Contact) -> Propose:
        return Propose(header.ballot, header, (self._process.contact, *contacts))

    def _made_up_voters(self, chain: Chain) -> Propose:
        """Sessions of users that do not exist."""
        made_up = [Contact(f"ghost{one}.000", f"ghost{one}", True, proof=self._forged()) for one in range(5)]
        members = tuple(Member(one.session, one.user, (0,), 1, True, 1) for one in made_up)
        voters = quorum.choose_voters(members, chain.last(quorum.WINDOW))
        return self._propose(self._next(chain, members=members, voters=voters), *made_up)

    def _own_coordinator(self, chain: Chain) -> Propose:
        """A session of its own that breaks ties."""
        own = Contact(f"{self._me} too", self._process.contact.user, True, is_coordinator=True)
        proof = self._process.credentials.sign(signed.contact(own))
        return self._propose(self._next(chain, tie_breaker=own.session), replace(own, proof=proof))

    # -- lies about itself

    def _too_much(self, chain: Chain) -> None:
        """Its calls offer more than anybody can have, from now on."""
        many, few = Offer(0, 10**6, 10**6, 0.0), Offer(0, 10**6, 1, 0.0)
        offers = self._random.choice([(many,), (few,), (replace(few, weight=-1),)])
        self._process.machine.buffers.offer = lambda: offers  # type: ignore[method-assign]

    def _flood(self, chain: Chain) -> None:
        """Pieces of rounds that nobody has opened."""
        for one in self._world.living():
            for number in range(self._count, self._count + 20):
                ballot = Ballot(10**6 + number, self._me)
                self._say(one.session, Piece(ballot, number % self._world.settings.chunks, number), ())

    # -- lies about the log

    def _certificate(self, header: Header, ballot: Ballot, votes: tuple[str, ...]) -> Certificate:
        """Its own vote is signed well, those of others are not."""
        contents = [signed.vote(one, header.previous, ballot, header.digest) for one in votes]
        return Certificate(ballot, votes, signatures=tuple(map(self._process.credentials.sign, contents)))

    def _reset(self, chain: Chain) -> Commit:
        """Names itself as the only voter."""
        header = self._next(chain)
        at = Reset(header.step, header.ballot)
        header = replace(header, kind=HeaderKind.RESET, voters=(self._me,), resets=(*header.resets, at))
        header = replace(header, order=self._process.credentials.sign(signed.order(header)))
        return Commit(Entry(header, Certificate(header.ballot)))

    def _commit(self, chain: Chain) -> Commit:
        """With the votes of everybody."""
        header = self._next(chain)
        return Commit(Entry(header, self._certificate(header, header.ballot, self._and_me(chain.tip))))

    def _and_me(self, header: Header) -> tuple[str, ...]:
        return (*(one for one in header.voters if one != self._me), self._me)

    def _tie(self, chain: Chain) -> Commit:
        """With its own vote, in a ballot of the coordinator that needs only half of them."""
        header = self._next(chain)
        ballot = Ballot(header.ballot.number, chain.tip.tie_breaker)
        return Commit(Entry(header, self._certificate(header, ballot, (self._me,))))

    def _gone(self, chain: Chain) -> Commit:
        """With its own vote, since all others have left."""
        header = self._next(chain)
        gone = [Farewell(one, "", -1, None) for one in chain.tip.voters if one != self._me]
        left = tuple(signed.signed_farewell(one, self._process.credentials) for one in gone)
        return Commit(Entry(header, replace(self._certificate(header, header.ballot, (self._me,)), goodbyes=left)))

    def _head(self, chain: Chain) -> Status:
        """It is ahead of all others, and the authority has signed that."""
        log = self._log(chain)
        return Status(log.entries[-1].header.head, None, convenes=False, anchor=log.anchor)

    def _log(self, chain: Chain) -> Log:
        """The real one, or that up to somewhere, or another from the beginning; with a state of its own."""
        state = State("made up", "coarse made up")
        digest = digest_of(state)
        self._contents[digest] = state
        first = self._random.choice([0, len(chain) // 2, len(chain)])
        entries = chain.since(chain.tip.step - first + 1)
        if entries and self._random.random() < 0.4:
            return Log(tuple(entries), SnapshotName(entries[0].header.step, digest), self._process.machine.log.anchor)
        tip = entries[-1].header if entries else replace(chain.tip, step=chain.tip.step - 1, previous="")
        voters, name = (self._me,), SnapshotName(tip.step + 1, digest)
        for _ in range(AHEAD):
            header = self._next(Chain([Entry(tip, Certificate(tip.ballot))]), voters=voters, snapshot=name)
            entries.append(Entry(header, self._certificate(header, header.ballot, self._and_me(tip))))
            tip = header
        return Log(tuple(entries), name, self._anchor(tip.head))

    def _anchor(self, head: Head) -> Anchor | None:
        """A real one, or one that the authority did not sign."""
        forged = Anchor(head, None, self._process.credentials.sign(signed.head(head, None)))
        return self._random.choice([self._process.machine.log.anchor, forged])
