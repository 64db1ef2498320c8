"""Faults that wait for their moment: a message that somebody is about to send in the middle of a commit."""

from functools import partial
from typing import TYPE_CHECKING

from averaging.protocol.messages import Commit, Propose, Vote
from tests.simulation.process import Process
from tests.simulation.world import Ambush, World

if TYPE_CHECKING:
    from tests.simulation.fault_injection.faults import Faults


class Ambushes:
    """At a proposal, a vote or a commit."""

    def __init__(self, world: World, faults: "Faults"):
        self._world, self._random, self._faults = world, world.random, faults

    def ambush(self) -> None:
        """Strike in the middle of the next commits: at a proposal, a vote or a commit, whoever sends it."""
        for _ in range(self._random.choice([1, 1, 2, 3])):
            moments: list[type[Propose] | type[Vote] | type[Commit]] = [Propose, Propose, Vote, Vote, Commit]
            moment = self._random.choice(moments)
            strike = self._random.choice(
                [
                    self._dies_soon,
                    self._dies_soon,
                    self._stands_still,
                    self._leaves_now,
                    self._is_cut_off,
                    self._lose_half,
                ]
            )
            self._world.ambushes.append(Ambush(moment, strike, self._random.random() < 0.5))

    def _dies_soon(self, process: Process) -> None:
        if process.is_alive:
            process.dies_in = self._random.randint(1, 6)

            def look() -> None:
                process.dies_in = None
                if not process.is_alive:
                    self._faults.bring_back(process)

            self._world.after(2.0, look)

    def _stands_still(self, process: Process) -> None:
        process.freeze(self._random.choice([3.0, 15.0, 30.0, 50.0]))

    def _leaves_now(self, process: Process) -> None:
        """Once its present actions are done."""

        def leave() -> None:
            if process.is_alive and not process.is_frozen and not process.contact.is_coordinator:
                self._faults.leaves(process)

        self._world.after(0.0, leave)

    def _is_cut_off(self, process: Process) -> None:
        """With some of the others."""
        users = sorted({one.contact.user for one in self._world.living()} - {process.contact.user})
        count = self._random.randint(0, len(users) // 2)
        self._faults.isolate(dict.fromkeys([process.contact.user, *self._random.sample(users, count)], 1))

    def _lose_half(self, process: Process) -> None:
        self._world.lossy = 0.5
        self._world.after(self._random.choice([1.0, 5.0]), lambda: setattr(self._world, "lossy", 0.0))

    def quarrel(self) -> None:
        """A proposal reaches some, another convener proposes something else to others, and dies before they answer."""
        self._world.ambushes.append(Ambush(Propose, self._is_heard_by_some))
        if self._random.random() < 0.7:
            self._world.ambushes.append(Ambush(Propose, self._dies_after_this, waits_for_another=True))

    def last_words(self) -> None:
        """A convener dies, and what it proposes arrives when others have proposed something else."""
        self._world.ambushes.append(Ambush(Propose, self._dies_and_is_heard_late))
        self._world.ambushes.append(Ambush(Propose, self._dies_after_this, waits_for_another=True))

    def voters_leave(self) -> None:
        """A proposal reaches some voters, and its convener dies; these voters leave after they have voted."""
        self._world.ambushes.append(Ambush(Propose, self._is_heard_by_those_that_leave))

    def fork(self) -> None:
        """Those that know of a trainer's commit stand still for so long that the run is reset without them."""
        self._world.ambushes.append(Ambush(Commit, self._only_voters_know))

    def _only_voters_know(self, process: Process) -> None:
        """And perhaps one that has accepted the header is left, but does not know that it is committed."""
        chain = process.machine.log.chain
        if process.contact.is_coordinator or chain is None:
            self.fork()
            return
        living = [one for one in self._world.living() if one is not process]
        voted = [
            one
            for one in living
            if one.machine.voting.voter.instance == chain.tip.previous and one.machine.voting.voter.accepted
        ]
        spared = self._random.choice([None, *voted])
        seconds = self._random.uniform(100.0, 250.0)
        for one in living:
            if one in voted and one is not spared:
                self._world.after(0.0, partial(one.freeze, seconds))
            else:
                one.deaf_until = self._world.now + 0.5
        self._world.after(0.0, partial(process.freeze, seconds))

    def _dies_after_this(self, process: Process) -> None:
        """When all that it has to send now is sent."""

        def die() -> None:
            if process.is_alive:
                process.die()
                self._faults.bring_back(process)

        self._world.after(0.0, die)

    def _dies_and_is_heard_late(self, process: Process) -> None:
        process.lag = self._random.uniform(5.0, 60.0)
        self._dies_after_this(process)

    def _is_heard_by_those_that_leave(self, process: Process) -> None:
        some, others = self._parted_voters(process)
        for voter in others:
            voter.deaf_until = self._world.now + 0.5
        for voter in some:
            self._world.after(0.5, partial(self._leaves_now, voter))
        self._dies_after_this(process)

    def _is_heard_by_some(self, process: Process) -> None:
        """Some voters get what it sends now, but their votes are lost; others come back to it after a while."""
        some = {voter.contact.user for voter in self._parted_voters(process)[0]}
        users = sorted({one.contact.user for one in self._world.living()} - some - {process.contact.user})
        process.deaf_until = self._world.now + 0.5
        apart = dict.fromkeys(users, 2)
        self._faults.isolate(apart)
        self._world.after(0.13, lambda: self._faults.isolate({**apart, **dict.fromkeys(sorted(some), 1)}))
        later = dict.fromkeys(sorted(some), 1) if self._random.random() < 0.7 else {}
        self._world.after(self._random.uniform(15.0, 50.0), lambda: self._faults.isolate(later))

    def _parted_voters(self, process: Process) -> tuple[list[Process], list[Process]]:
        """The other voters on its next header, in two groups, more often than not of one size."""
        chain = process.machine.log.chain
        names = set(chain.tip.voters) - {process.session} if chain else set()
        voters = [one for one in self._world.living() if one.session in names]
        self._random.shuffle(voters)
        half = len(voters) // 2
        count = self._random.choice([half, len(voters) - half, self._random.randint(0, len(voters))])
        return voters[:count], voters[count:]
