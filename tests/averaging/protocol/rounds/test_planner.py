"""A convener asks the planner of its process, with what the members say of their lines."""

from collections.abc import Sequence

import pytest

from averaging.log.chain import Chain
from averaging.log.header import Ballot, HeaderKind, Member, SnapshotName
from averaging.protocol.actions import Send
from averaging.protocol.messages import Assignment, Bandwidth, Call, Contact, Offer, Plan, Reduced, Reducing, Report
from averaging.protocol.peer import LogPeer
from averaging.protocol.rounds.parts import Assignments, MemberProfile, Planned, equal_parts
from averaging.protocol.rounds.reliability import MOST, Patience
from averaging.protocol.session import Session
from averaging.protocol.settings import Settings
from tests.averaging.believing import Believing
from tests.averaging.log.headers import chain_of

ME = Contact("coordinator.0", "coordinator", reachable=True, is_coordinator=True)
FAT = Contact("fat.0", "fat", reachable=True)
BALLOT = Ballot(1, "coordinator.0")
THIN = Contact("thin.0", "thin", reachable=False)


def test_the_plan_comes_from_the_process_and_the_lines_from_calls() -> None:
    asked: list[tuple[int, Sequence[MemberProfile]]] = []

    def all_to_the_fattest(chunks: int, members: Sequence[MemberProfile]) -> Planned:
        asked.append((chunks, members))
        fattest = max(members, key=lambda line: line.bandwidth.upload if line.reachable and line.bandwidth else 0.0)
        return Planned((Assignment(0, chunks, fattest.session, attempt=0),), ("fat.0",))

    settings = Settings("run", target_samples=4, chunks=3, snapshot_every=5)
    machine = LogPeer(ME, settings, Believing(), 0.0, held=("old",), planner=all_to_the_fattest)
    machine.start(Chain(chain_of(1, kind=HeaderKind.GENESIS, tie_breaker=ME.session)), [SnapshotName(0, "old")])
    machine.session.bandwidth, machine.session.speed = Bandwidth(upload=50.0, download=60.0), 3.0
    machine.contacts([FAT, THIN], 0.0)
    for contact in (FAT, THIN):  # so that the meeting waits for them
        machine.receive(contact.session, Report(machine.head, 1), 0.5)
    machine.computed(10, 1.0, samples=2, loss=30.0)
    current = machine.convening.round
    assert current is not None
    offers = (Offer(0, weight=4, samples=1, loss=8.0),)
    for contact, bandwidth, speed, rests in ((FAT, Bandwidth(1000.0, 900.0), 4.0, True), (THIN, None, 0.0, False)):
        call = Call(machine.log.tip.digest, current.ballot, offers, None, bandwidth, speed, rests)
        machine.receive(contact.session, call, 1.5)
    machine.tick(4.0)
    ((chunks, lines),) = asked
    assert chunks == 3
    assert sorted(lines, key=lambda line: line.session) == [
        MemberProfile("coordinator.0", True, True, Bandwidth(50.0, 60.0), 3.0),
        MemberProfile("fat.0", True, True, Bandwidth(1000.0, 900.0), 4.0, rests=True),
        MemberProfile("thin.0", True, False, None),
    ]
    plans = [one.message for one in machine.take_actions() if isinstance(one, Send) and isinstance(one.message, Plan)]
    assert {part.reducer for plan in plans for part in plan.parts} == {"fat.0"}
    assert {plan.resting for plan in plans} == {("fat.0",)}
    assert [(one.samples, one.loss) for one in current.meeting.members] == [(2, 3.0), (1, 2.0), (1, 2.0)]


def members_of(calls: dict[str, Call]) -> tuple[Member, ...]:
    """They bring nothing."""
    return tuple(Member(one, one, (), 0, reachable=True) for one in sorted(calls))


def test_a_reducer_that_is_lost_is_replaced_by_the_fattest_line_that_is_left() -> None:
    def call(bandwidth: float | None) -> Call:
        return Call("", BALLOT, (), None, None if bandwidth is None else Bandwidth(bandwidth, 2 * bandwidth))

    def all_to_one(chunks: int, members: Sequence[MemberProfile]) -> Planned:
        return Planned((Assignment(0, chunks, "fattest.0", attempt=0),))

    calls = {"a.0": call(2.0), "b.0": call(20.0), "c.0": call(None), "fattest.0": call(90.0)}
    session = Session(ME, Settings("run", target_samples=4, chunks=3, snapshot_every=5), Believing())
    assignments = Assignments(session, "", BALLOT, calls, members_of(calls), calls.keys(), all_to_one, Patience(), 0.0)
    reducers = []
    for reducer in ("fattest.0", "b.0", "a.0", "c.0"):
        reducers.append(assignments.plan.parts[0].reducer)
        assignments.lost(reducer)
        assignments.results(1.0)
    assert reducers == ["fattest.0", "b.0", "a.0", "c.0"]
    assert assignments.plan.parts == (Assignment(0, 3, ME.session, attempt=4),)


@pytest.mark.parametrize("sign_of_life", [False, True])
def test_a_reducer_that_is_late_again_gets_no_part_and_no_stand_in_is_blamed(sign_of_life: bool) -> None:
    """Whether it is silent, or says for ever that pieces are coming in."""
    calls = {one: Call("", BALLOT, (), None) for one in ("eve.0", "fat.0", ME.session)}
    session = Session(ME, Settings("run", target_samples=4, chunks=1, snapshot_every=5), Believing())
    patience, now, reducers = Patience(), 0.0, []

    def to_the_second(chunks: int, members: Sequence[MemberProfile]) -> Planned:
        able = sorted(one.session for one in members if one.reachable)
        return Planned((Assignment(0, chunks, able[min(1, len(able) - 1)], attempt=0),), seconds=1.0)

    for _ in range(4):
        assignments = Assignments(
            session, "", BALLOT, calls, members_of(calls), calls.keys(), to_the_second, patience, now
        )
        reducers.append(assignments.plan.parts[0].reducer)
        for _ in range(40):
            now += 0.5
            (part,) = assignments.plan.parts
            if part.reducer != "eve.0":
                assignments.reduced(part.reducer, Reduced(BALLOT, part, ("mean",), ()), now)
            elif sign_of_life:
                assignments.reducing("eve.0", Reducing(BALLOT, 0, part.attempt), now)
            if assignments.results(now) is not None:
                break
        else:
            raise AssertionError("the round does not end")
    assert reducers[0] == "eve.0" and reducers[-1] == "fat.0"
    assert patience.left("fat.0", now) == patience.left(ME.session, now) == MOST


def test_where_nobody_can_be_trusted_all_may_reduce() -> None:
    patience = Patience()
    patience.waited("fat.0", MOST, 0.0, since=0.0)
    calls = {"fat.0": Call("", BALLOT, (), None)}
    session = Session(ME, Settings("run", target_samples=4, chunks=1, snapshot_every=5), Believing())
    assignments = Assignments(session, "", BALLOT, calls, members_of(calls), calls.keys(), equal_parts, patience, 0.0)
    assert [part.reducer for part in assignments.plan.parts] == ["fat.0"]
