"""The last peer that has a voted chain can show the others that it is the run's, and they go over to it."""

from unittest.mock import patch

import pytest
from msgspec.structs import replace

from averaging.log.chain import Chain
from averaging.log.header import Ballot, Certificate, Entry, HeaderKind, Reset, SnapshotName
from averaging.protocol import credentials as signed
from averaging.protocol.actions import Rejoin, Send
from averaging.protocol.catching_up import held_log
from averaging.protocol.commit import quorum
from averaging.protocol.messages import Log, WantLog
from averaging.protocol.peer import LogPeer
from tests.averaging.protocol.guarded_run import COORDINATOR, EVERYTHING, SETTINGS, SNAPSHOT, VOTERS, Run, asks, told

STATE = SnapshotName(SNAPSHOT, "state")


def answer(machine: LogPeer, session: str, want: WantLog) -> Log:
    """What a peer tells of its log."""
    machine.take_actions()
    machine.receive(session, want, 3.0)
    return next(one.message for one in machine.take_actions() if isinstance(one, Send) and isinstance(one.message, Log))


def test_a_snapshot_is_shown_to_be_the_runs_by_what_came_with_it() -> None:
    """The header that names it is committed, but all that have its update are gone."""
    run = Run()
    entries = tuple(run.entries[: SNAPSHOT + 2])
    assert entries[-1].header.snapshot == STATE
    has = [one for one in EVERYTHING if one not in entries[-1].header.needed]
    zoe = LogPeer(run.contacts["zoe.0"], SETTINGS, run.of["zoe.0"], 0.0, has)
    zoe.contacts(run.contacts.values(), 0.0)
    assert told(zoe, "ann.0", Log(entries, STATE, run.anchor(entries[-1].header.head))) == entries[SNAPSHOT].header.head
    coordinator = run.peer(COORDINATOR, run.entries[:3])
    coordinator.fetching.forget(entries[-1].header.needed)
    assert coordinator.head is not None
    log = answer(zoe, COORDINATOR, WantLog(coordinator.head))
    assert log.snapshot == STATE
    assert told(coordinator, "zoe.0", log) == zoe.head


def test_a_chain_is_told_from_where_it_parts_from_the_readers() -> None:
    run = Run()
    zoe, common = run.peer("zoe.0", run.entries), run.entries[:3]
    tip, ballot = common[-1].header, Ballot(99, COORDINATOR)
    header = run.next(tip, COORDINATOR, kind=HeaderKind.RESET, parts=(), members=(), ballot=ballot,
                      resets=(Reset(tip.step + 1, ballot),))  # fmt: skip
    reset = Entry(signed.ordered(header, run.of[COORDINATOR]), Certificate(ballot))
    chain = Chain(run.following([*common, reset], 2 * SNAPSHOT, VOTERS[:2], snapshot=tip.snapshot))
    with patch.object(quorum, "WINDOW", 1):
        log = answer(zoe, "ann.0", WantLog(chain.head))
        assert log.anchor is None
        ann = run.peer("ann.0", chain.since(0))
        asks(ann, "zoe.0", run.entries[-1].header.head)
        ann.receive("zoe.0", log, 1.1)
    assert any(isinstance(one, Rejoin) for one in ann.take_actions())
    forged = [replace(one, certificate=run.certificate(one.header, one.header.ballot, VOTERS, by="eve.0"))
              for one in log.entries]  # fmt: skip
    ann = run.peer("ann.0", chain.since(0))
    asks(ann, "zoe.0", run.entries[-1].header.head)
    ann.receive("zoe.0", replace(log, entries=tuple(forged)), 1.1)
    assert not any(isinstance(one, Rejoin) for one in ann.take_actions())


@pytest.mark.parametrize("forger", ["", "eve.0"])
def test_a_log_that_is_too_long_for_one_answer_is_shown_part_by_part(forger: str) -> None:
    """As if the coordinator had been away for thousands of steps, and nobody had their updates any more."""
    run = Run()
    zoe, ann = run.peer("zoe.0", run.entries), run.peer("ann.0", run.entries[:3])
    zoe.fetching.forget([digest for entry in run.entries[:SNAPSHOT] for digest in entry.header.needed])
    asks(ann, "zoe.0", run.entries[-1].header.head)
    asks(ann, "eve.0", run.entries[-1].header.head, 10.0)
    wanted, logs = [WantLog(ann.head)], list[Log]()
    with patch.object(quorum, "WINDOW", 1), patch.object(held_log, "LONGEST", 1):
        while wanted:
            log = answer(zoe, "ann.0", wanted[0])
            if forger:
                forged = (run.certificate(one.header, one.header.ballot, VOTERS, by=forger) for one in log.entries)
                log = replace(log, entries=tuple(map(Entry, (one.header for one in log.entries), forged)))
            logs.append(log)
            ann.receive("zoe.0", log, 1.1)
            hers = Log(tuple(run.entries[2:]), SnapshotName(SNAPSHOT, "eve's state"))
            for junk in (hers, Log(tuple(run.entries[2:4]), None, goes_on=True)):
                ann.receive("eve.0", junk, 1.1)  # she was asked last, and would lead the reader back
            sent = [one.message for one in ann.take_actions() if isinstance(one, Send) and one.to == "zoe.0"]
            wanted = [one for one in sent if isinstance(one, WantLog)]
    assert [log.goes_on for log in logs] == ([True] if forger else [True, True, False])
    assert ann.head == (run.entries[2].header.head if forger else zoe.head)


def test_parts_that_lead_no_farther_are_not_followed_by_a_question() -> None:
    """Else one that tells two of them in turn would keep its reader busy, and never be doubted."""
    run = Run()
    ann = run.peer("ann.0", run.entries[:3])
    asks(ann, "zoe.0", run.entries[-1].header.head)
    asked = []
    for end in 3 * (4, 5):
        ann.receive("zoe.0", Log(tuple(run.entries[2:end]), None, goes_on=True), 1.1)
        asked.append(any(isinstance(one, Send) and isinstance(one.message, WantLog) for one in ann.take_actions()))
    assert asked == [True, True, False, False, False, False]
