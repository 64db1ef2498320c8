"""Contributions to old steps are rolled up; whatever comes later, each is counted once."""

import datetime
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import create_engine, event, text

from coordinator.ledger import Contribution, Ledger, LedgerError, SessionReport, open_ledger
from coordinator.ledger_schema import BLOCK_STEPS
from coordinator.ledger_writing import KEPT_STEPS, roll_up_before
from swarm.records import CONTRIBUTIONS_KEPT
from tests.waiting import PATIENCE

Report = Callable[..., SessionReport]
EPOCH = datetime.date(1970, 1, 1)
OLD = KEPT_STEPS + 3 * BLOCK_STEPS  # after so many global steps the first ones are rolled up


def rows(url: str, folder: Path, table: str) -> int:
    engine = create_engine(url if url.startswith("postgresql") else f"sqlite:///{folder}/ledger.db")
    with engine.connect() as connection:
        count = connection.scalar(text(f"SELECT COUNT(*) FROM {table}"))
    engine.dispose()
    return int(count or 0)


def roll_up(ledger: Ledger, report: Report, *, user: str = "pacer") -> None:
    """Another session gets so far that the first steps are old."""
    ledger.record([report("f", user=user, steps={0: (1, 5.0), OLD: (1, 5.0)}, last_seen=1e6)])


def test_what_is_rolled_up_is_whole_blocks_well_behind_the_newest_step() -> None:
    assert KEPT_STEPS > 10 * CONTRIBUTIONS_KEPT  # late ones are rare, then
    assert roll_up_before(0) == roll_up_before(KEPT_STEPS + BLOCK_STEPS - 2) == 0
    assert roll_up_before(KEPT_STEPS + BLOCK_STEPS - 1) == BLOCK_STEPS
    for newest in range(5000, 5100):
        before = roll_up_before(newest)
        assert before % BLOCK_STEPS == 0
        assert KEPT_STEPS <= newest - before + 1 < KEPT_STEPS + BLOCK_STEPS


def test_sums_are_those_of_all_contributions_whatever_is_repeated_lost_or_late(
    ledger_url: str, tmp_path: Path, report: Report
) -> None:
    chance = random.Random(0)
    brought: dict[tuple[str, int], tuple[int, float]] = {}  # what has come to the ledger
    histories: dict[str, list[Contribution]] = {name: [] for name in "abcd"}
    past: list[SessionReport] = []
    users = {"a": "asha", "b": "asha", "c": "bo", "d": "di"}
    ledger = open_ledger(ledger_url, tmp_path)
    for step in range(2 * OLD):
        for history in histories.values():
            if chance.random() < 0.9:
                samples = chance.randrange(1, 50)
                history.append(Contribution(step, samples, 128 * samples, chance.uniform(2.0, 9.0)))
        if step % 5 and step != 2 * OLD - 1:
            continue
        reports = [
            report(name, user=users[name], last_seen=1000.0 + step, contributions=tuple(history[-CONTRIBUTIONS_KEPT:]))
            for name, history in histories.items()
            if chance.random() < 0.7  # of the others something is lost when it is silent for long
        ]
        past = (past + reports)[-400:]
        reports += chance.sample(past, 2)  # reports that come late, or again
        ledger.record(reports)
        for one in reports:
            for part in one.contributions:
                brought.setdefault((one.session_id[0], part.step), (part.samples, part.loss))
        if step % 400 == 0:
            ledger.close()
            ledger = open_ledger(ledger_url, tmp_path)
    ledger.record(past)
    expected = sum(samples for samples, _ in brought.values())
    assert (ledger.totals().samples, ledger.totals().tokens) == (expected, 128 * expected)
    for session in ledger.sessions():
        own = [samples for (name, _), (samples, _) in brought.items() if name == session.session_id[0]]
        assert session.samples == sum(own)
    for leader in ledger.leaderboard():
        assert leader.samples == sum(n for (name, _), (n, _) in brought.items() if users[name] == leader.user)
    by_day = {leader.user: leader.samples for leader in ledger.leaderboard(since=EPOCH)}
    assert by_day == {leader.user: leader.samples for leader in ledger.leaderboard()}
    for summary in ledger.steps():
        mine = [one for (_, step), one in brought.items() if step == summary.step]
        assert (summary.peers, summary.samples) == (len(mine), sum(samples for samples, _ in mine))
        assert summary.loss == pytest.approx(sum(n * loss for n, loss in mine) / summary.samples)
    assert len(ledger.steps()) == len({step for _, step in brought})
    ledger.close()
    assert rows(ledger_url, tmp_path, "contributions") <= len(users) * (KEPT_STEPS + BLOCK_STEPS)
    assert rows(ledger_url, tmp_path, "rolled_up") <= len(users) * 2 * OLD / BLOCK_STEPS


@pytest.mark.parametrize("restarted", [False, True], ids=["remembered", "restarted"])
def test_a_late_report_of_steps_that_were_rolled_up_adds_only_what_is_new(
    ledger_url: str, tmp_path: Path, report: Report, restarted: bool
) -> None:
    ledger = open_ledger(ledger_url, tmp_path)
    ledger.record([report("a", steps={1: (10, 5.0), 3: (10, 5.0), BLOCK_STEPS: (10, 5.0)})])
    roll_up(ledger, report)
    assert rows(ledger_url, tmp_path, "contributions") == 1
    late = report("a", steps=dict.fromkeys([1, 2, 3, BLOCK_STEPS, 2 * BLOCK_STEPS - 1], (10, 5.0)), last_seen=900.0)
    for _ in range(3):
        if restarted:
            ledger.close()
            ledger = open_ledger(ledger_url, tmp_path)
        ledger.record([late])
        assert ledger.totals().samples == 2 + 10 * 5
    # those that came late were rolled up in their turn
    assert rows(ledger_url, tmp_path, "contributions") == 1
    assert {one.step: one.peers for one in ledger.steps()}[2] == 1
    ledger.close()


def test_the_last_bit_of_a_block_is_kept_like_the_others(ledger: Ledger, report: Report) -> None:
    every = report("a", steps=dict.fromkeys(range(2 * BLOCK_STEPS), (1, 5.0)))
    ledger.record([every])
    roll_up(ledger, report)
    ledger.close()  # it forgets what it has written
    ledger.record([every, report("b", steps={BLOCK_STEPS - 1: (1, 5.0)})])
    ledger.record([report("b", steps={BLOCK_STEPS - 1: (1, 5.0)}, last_seen=1200.0)])
    assert ledger.totals().samples == 2 * BLOCK_STEPS + 2 + 1


def test_a_roll_up_that_fails_changes_nothing(ledger: Ledger, report: Report) -> None:
    ledger.record([report("a", steps={1: (10, 5.0)})])
    before = (ledger.totals(), ledger.steps())

    @event.listens_for(ledger._engine, "before_cursor_execute")
    def fail(connection: object, cursor: object, statement: str, *_: object) -> None:
        if failing and statement.startswith("DELETE"):
            raise LedgerError("the disk is full")

    failing = True
    with pytest.raises(LedgerError):
        roll_up(ledger, report)
    assert (ledger.totals(), ledger.steps()) == before
    failing = False
    roll_up(ledger, report)
    ledger.record([report("a", steps={1: (10, 5.0)}, last_seen=1200.0)])
    assert ledger.totals().samples == 12


def test_writers_that_roll_up_at_the_same_time_count_once(ledger_url: str, tmp_path: Path, report: Report) -> None:
    ledgers = [open_ledger(ledger_url, tmp_path, patience=PATIENCE) for _ in range(3)]
    far = 20 * BLOCK_STEPS

    def write(number: int) -> None:
        """Each goes through all the steps at a pace of its own, with the same sessions."""
        for step in range(0, far, CONTRIBUTIONS_KEPT - number):
            steps = dict.fromkeys(range(step, min(far, step + CONTRIBUTIONS_KEPT)), (1, 5.0))
            ledgers[number].record(report(name, steps=steps, last_seen=float(step)) for name in "ab")

    with ThreadPoolExecutor(len(ledgers)) as pool:
        list(pool.map(write, range(len(ledgers))))
    assert ledgers[0].totals().samples == 2 * far
    assert {one.samples for one in ledgers[0].steps()} == {2}
    for ledger in ledgers:
        ledger.close()
