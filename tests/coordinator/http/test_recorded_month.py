"""The service over a month of 300 people: everything adds up, and is answered quickly."""

import datetime
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from coordinator.http.responses import CACHE_SECONDS
from swarm.run_file import RunFile
from tests.recorded_month.__main__ import State, record
from tests.recorded_month.people import AWKWARD
from tests.recorded_month.serving import Served, serving
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("month")  # which is recorded once
QUICK = 12_000_000  # so far Python counts in half a second: no answer may take that much of a processor
PATHS = (
    "run",
    "progress",
    "leaderboard",
    "leaderboard?period=day",
    "leaderboard?period=week",
    "sessions",
    "checkpoints",
    "history",
    "history?points=2000",
    "fills",
    "person?user=user-008",
    "badge.svg?user=user-008",
    "thanks.md",
    "machines",
)


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFile, Path]:
    folder = tmp_path_factory.mktemp("month")
    return record(folder, now=time.time()), folder


@pytest.fixture(scope="module")
def served(month: tuple[RunFile, Path]) -> Iterator[Served]:
    with serving(*month, going_on=False) as service:
        yield service


def test_all_sums_are_of_the_same_samples(served: Served) -> None:
    ledger = served.context.ledger
    samples = ledger.totals().samples
    assert samples == sum(one.samples for one in ledger.steps())
    assert samples == sum(one.samples for one in ledger.leaderboard())
    month = ledger.leaderboard(since=datetime.date(1970, 1, 1))
    assert samples == sum(one.samples for one in month)
    assert sum(one.hours for one in month) == pytest.approx(ledger.totals().hours)


def test_the_month_has_all_that_a_page_has_to_show(served: Served) -> None:
    progress = served.ask("progress").json()
    assert progress["users_ever"] == 300 and progress["sessions_present"] > 10
    assert progress["last_hour"]["steps"] > 0 and progress["finish"] > time.time()
    history = served.ask("history").json()
    assert 500 < len(history["steps"]) <= 600 and 500 < len(history["minutes"]) <= 600
    assert sum(one["averaging_failures"] for one in history["minutes"]) > 1000
    assert all(one["averaging_rounds"] >= one["averaging_failures"] >= 0 for one in history["minutes"])
    losses = [one["loss"] for one in history["steps"]]
    assert losses[0] > 9 > 3 > losses[-1]
    steps = [one.step for one in served.context.ledger.steps()]
    assert [b - a for a, b in pairwise(steps) if b - a > 1] == [5], "the swarm went back once"
    gaps = [b["time"] - a["time"] for a, b in pairwise(history["minutes"])]
    assert max(gaps) > 4 * 3600, "the coordinator was off for some hours"
    assert {one["user"] for one in served.ask("leaderboard").json()} >= set(AWKWARD)
    assert served.ask("machines").json()["countries"]
    assert len(served.ask("checkpoints").json()) >= 5
    assert 100 <= len(served.ask("fills").json()) <= 200


@pytest.mark.faults
def test_answers_take_little_of_the_processor(served: Served) -> None:
    spent: dict[str, list[float]] = {path: [] for path in PATHS}
    for path in PATHS:
        served.ask(path)  # what does not change any more is read from the ledger once
    for _ in range(3):
        time.sleep(CACHE_SECONDS + 0.1)  # until they have to be found anew
        for path in PATHS:
            began = time.process_time()
            served.ask(path)
            spent[path].append(time.process_time() - began)
    quick = min(seconds_of_counting() for _ in range(3))
    assert {path: min(times) for path, times in spent.items() if min(times) > quick} == {}


def seconds_of_counting() -> float:
    """To `QUICK`, of the processor: machines differ by a factor of three from day to day."""
    began, counted = time.process_time(), 0
    while counted < QUICK:
        counted += 1
    return time.process_time() - began


@pytest.mark.parametrize("state", [State.EMPTY, State.FINISHED])
def test_other_states_can_be_looked_at(tmp_path: Path, state: State) -> None:
    run = record(tmp_path, people=20, days=2, now=time.time(), state=state)
    with serving(run, tmp_path, going_on=False) as served:
        for path in PATHS:
            if "user-008" not in path or state != State.EMPTY:
                served.ask(path)
        progress = served.ask("progress").json()
    assert progress["finish"] is None
    assert (progress["step"] == progress["total_steps"]) == (state == State.FINISHED)


def test_the_month_goes_on_while_it_is_served(tmp_path: Path) -> None:
    run = record(tmp_path, people=30, days=2, now=time.time())
    averaging = run.averaging.model_copy(update={"target_batch_size": 20})
    with serving(run.model_copy(update={"averaging": averaging}), tmp_path) as served:
        ledger = served.context.ledger
        before = ledger.progress()
        wait_until(lambda: ledger.progress().step > before.step, "another global step")
        assert ledger.progress().samples > before.samples
