"""While a held-out evaluation takes minutes, the ledger is kept, orders are followed, and nothing undone is counted."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from coordinator.checkpoints.checkpoint import list_checkpoints
from coordinator.ledger.ingest import SessionReport
from coordinator.ledger.ledger import Ledger
from swarm import clock
from swarm.run_file import RunFile
from tests.coordinator.release.conftest import ledger as ledger
from tests.coordinator.release.conftest import run as run
from tests.coordinator.release.conftest import state_folder as state_folder
from tests.coordinator.release.conftest import tokenizer as tokenizer
from tests.coordinator.release.running import Running, evaluated_at_each_step, wait_for
from tests.support.waiting import PATIENCE, wait_until
from trainer.data import Batch

PER_BATCH = 50.0  # seconds


class Slow(list[Batch]):
    """Batches, after each of which something happens."""

    def __init__(self, batches: list[Batch], after: Callable[[], None]):
        super().__init__(batches)
        self._after = after

    def __iter__(self) -> Iterator[Batch]:
        for batch in super().__iter__():
            yield batch
            self._after()


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Unix seconds by a clock that stands still unless a test puts it forward."""
    monkeypatch.setattr("coordinator.main_loop.POLL_EVERY", 0.01)
    shown = [clock.now()]
    monkeypatch.setattr(clock, "now", lambda: shown[0])
    return shown


def test_people_stay_present_and_get_all_their_hours(
    run: RunFile, ledger: Ledger, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, now: list[float]
) -> None:
    began, said, present = now[0], list[str](), list[int]()
    context, swarm, held_out = evaluated_at_each_step(run, ledger, tokenizer, tmp_path, said)
    session = SessionReport("c" * 32, "chandra", "peer-c", False, began, began, 1)

    def enter(**_: object) -> int:
        ledger.record([replace(session, last_seen=now[0])], now=now[0])
        return 1

    def pass_time() -> None:
        now[0] += PER_BATCH
        present.append(ledger.progress(now[0]).sessions_present)

    swarm.bring_up_to_date = enter
    with Running(context, swarm, tokenizer, Slow(held_out, pass_time)):
        wait_for(said, "global step 1: saved")
    assert now[0] - began >= 200.0
    assert set(present) == {1}
    (leader,) = (one for one in ledger.leaderboard(now[0]) if one.user == "chandra")
    assert leader.hours == pytest.approx((now[0] - began) / 3600)


def test_a_rollback_ends_the_evaluation_of_a_state_that_it_undoes(
    run: RunFile, ledger: Ledger, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, now: list[float]
) -> None:
    said, ordered, turns = list[str](), threading.Event(), threading.Semaphore(0)
    context, swarm, held_out = evaluated_at_each_step(run, ledger, tokenizer, tmp_path, said)

    def follow_order() -> None:
        swarm.is_proposed = ordered.is_set()
        turns.release()

    def order() -> None:
        ordered.set()
        now[0] += PER_BATCH

    swarm.follow_order = follow_order
    with Running(context, swarm, tokenizer, Slow(held_out, order)):
        assert ordered.wait(PATIENCE)
        for _ in range(20):
            assert turns.acquire(timeout=PATIENCE)
    assert list_checkpoints(context.checkpoints) == []
    assert 1 not in {one.step for one in ledger.evaluations()}
    assert not any("held-out loss" in line for line in said)


def test_losses_that_rise_meanwhile_are_a_reason_for_the_next_one(
    run: RunFile, ledger: Ledger, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, now: list[float]
) -> None:
    said = list[str]()
    context, swarm, held_out = evaluated_at_each_step(run, ledger, tokenizer, tmp_path, said)
    settings: Any = context.run.coordinator.model_copy(update={"evaluate_every": 10, "checkpoint_every": 10})
    context = replace(context, run=context.run.model_copy(update={"coordinator": settings}))
    swarm.needs_evaluation = lambda step: step == 2

    def rise() -> None:
        swarm.step = 2
        now[0] += PER_BATCH

    with Running(context, swarm, tokenizer, Slow(held_out, rise)):
        wait_until(lambda: 2 in {one.step for one in ledger.evaluations()}, "an evaluation that is not due yet")
    assert {1, 2} <= {one.step for one in ledger.evaluations()}
