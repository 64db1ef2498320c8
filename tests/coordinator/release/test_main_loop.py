"""The coordinator's loop evaluates and saves while the swarm trains, and the releaser uploads what it saves."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from transformers import PreTrainedTokenizerFast

from coordinator.checkpoints.checkpoint import Checkpoint, list_checkpoints
from coordinator.ledger.ledger import Ledger
from coordinator.ledger.storage.database import LedgerBroken, LedgerError
from coordinator.release.uploader import Releaser
from coordinator.run_context import RunContext
from coordinator.state_folder import RANDOM
from swarm.run_file import RunFile
from tests.coordinator.release.conftest import OURS, MakeCheckpoint, repository
from tests.coordinator.release.conftest import hub as hub
from tests.coordinator.release.conftest import ledger as ledger
from tests.coordinator.release.conftest import make_checkpoint as make_checkpoint
from tests.coordinator.release.conftest import run as run
from tests.coordinator.release.conftest import state_folder as state_folder
from tests.coordinator.release.conftest import tokenizer as tokenizer
from tests.coordinator.release.running import Running, Swarm, evaluated_at_each_step, wait_for
from tests.support.hub.repositories import Line
from tests.support.hub.stand_in import HubStandIn
from tests.support.hub.stand_in import hub_stand_in as hub_stand_in
from tests.support.waiting import PATIENCE, wait_until
from trainer.model import build_model


@pytest.fixture(autouse=True)
def the_loop_looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.main_loop.POLL_EVERY", 0.02)


def test_a_ledger_that_cannot_be_read_ends_the_coordinator_with_its_status(
    run: RunFile, ledger: Ledger, tokenizer: PreTrainedTokenizerFast, state_folder: Path
):
    said: list[str] = []
    swarm: Any = Swarm(build_model(run, tokenizer))
    broken = LedgerBroken("ledger ledger.db: a page is malformed; the file is broken")
    swarm.bring_up_to_date = Mock(side_effect=broken)
    with Running(RunContext(run, OURS, state_folder, ledger, said.append), swarm, tokenizer) as running:
        assert running.stop.wait(PATIENCE)
    assert running.stop.status == LedgerBroken.exit_status == 7
    assert said[0] == f"problem: {broken}"


def test_while_the_ledgers_database_is_away_models_are_evaluated_and_saved(
    run: RunFile, ledger: Ledger, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("coordinator.main_loop.LONGEST_PAUSE", 0.05)
    said = list[str]()
    context, swarm, held_out = evaluated_at_each_step(run, ledger, tokenizer, tmp_path, said)
    known, is_away, failed = ledger.totals().samples, threading.Event(), threading.Semaphore(0)

    def may_fail(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            if is_away.is_set():
                failed.release()
                raise LedgerError("ledger postgresql://host/db: connection refused; see that it can be reached")
            return work(*arguments, **more)

        return call

    for name in ("totals", "record_evaluation", "progress"):
        monkeypatch.setattr(ledger, name, may_fail(getattr(ledger, name)))
    monkeypatch.setattr(swarm, "bring_up_to_date", may_fail(swarm.bring_up_to_date))
    with Running(context, swarm, tokenizer, held_out):
        wait_for(said, "global step 1: saved")
        is_away.set()
        swarm.step = 2
        wait_for(said, "global step 2: saved")
        assert 2 not in {one.step for one in ledger.evaluations()}
        assert all(failed.acquire(timeout=PATIENCE) for _ in range(10))
        problem = "problem: ledger postgresql://host/db: connection refused; see that it can be reached"
        assert said.count(problem) == 1
        monkeypatch.setattr("coordinator.main_loop.TELL_AGAIN", 0.0)
        wait_until(lambda: said.count(problem) > 1, "the problem again")
        assert "The ledger is up to date again." not in said
        is_away.clear()
        wait_until(lambda: 2 in {one.step for one in ledger.evaluations()}, "the evaluation of the outage")
        wait_for(said, "The ledger is up to date again.")
    newest = list_checkpoints(context.checkpoints)[-1].state
    assert newest.step == 2 and newest.eval_loss is not None and newest.samples == known


def test_a_state_that_cannot_be_evaluated_is_saved_without_a_held_out_loss(
    run: RunFile, ledger: Ledger, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    said = list[str]()
    context, swarm, held_out = evaluated_at_each_step(run, ledger, tokenizer, tmp_path, said)
    with monkeypatch.context() as broken:
        broken.setattr("coordinator.evaluation.evaluator.evaluate", Mock(side_effect=ValueError("nothing is masked")))
        with Running(context, swarm, tokenizer, held_out):
            wait_for(said, "global step 1: saved")
            assert len([line for line in said if line.startswith("problem: ")]) == 2
            broken.undo()
            swarm.step = 2
            wait_for(said, "global step 2: saved")
    assert said[0].startswith("problem: the coordinator's main loop met an error and will try again (ValueError: ")
    assert said[1].startswith("problem: global step 1 was not evaluated (ValueError: nothing is masked), so ")
    assert [one.state.eval_loss is None for one in list_checkpoints(context.checkpoints)] == [True, False]


def test_the_loop_goes_on_while_a_checkpoint_uploads_and_it_stays_until_then(
    hub: HubStandIn, run: RunFile, ledger: Ledger, tokenizer: PreTrainedTokenizerFast, state_folder: Path
):
    settings = run.coordinator.model_copy(update={"checkpoint_every": 10, "keep_checkpoints": 1})
    run = run.model_copy(update={"coordinator": settings})
    said: list[str] = []
    swarm: Any = Swarm(build_model(run, tokenizer))
    assert run.release is not None
    context = RunContext(run, OURS, state_folder, ledger, said.append)
    releaser = Releaser(context, run.release)
    line = Line(held_after=1000)
    hub.repositories.lines.append(("PUT /lfs/", line))
    releaser.start()
    try:
        with Running(context, swarm, tokenizer, releaser=releaser):
            for step in (10, 100, 110, 120):
                swarm.step = step
                wait_for(said, f"global step {step}: saved")
                if step == 100:
                    assert line.holding.wait(PATIENCE)
            assert [one.step for one in list_checkpoints(context.checkpoints)] == [100, 120]
            assert len(repository(hub).revisions) == 1
            line.go_on.set()
            wait_for(said, "global step 100: released")
            swarm.step = 130
            wait_for(said, "global step 130: saved")
            assert [one.step for one in list_checkpoints(context.checkpoints)] == [130]
            swarm.abandoned = (200,)  # undone by a rollback
            swarm.step = 200
            wait_for(said, "global step 200: saved")
            swarm.step = 210
            wait_for(said, "global step 210: released")
    finally:
        line.go_on.set()
        releaser.finish(PATIENCE)
    assert not any(line.startswith("problem") for line in said), said
    assert [one.title for one in repository(hub).revisions[1:]] == [
        "Global step 100: not evaluated",
        "Global step 210: not evaluated",
    ]


class HeldStates:
    """What collects states of experts; it takes as long as the test says."""

    def __init__(self) -> None:
        self.pending = frozenset[Path]()

    def follow_rollback(self) -> None:
        """There is none."""

    def collect_for(self, checkpoint: Path) -> None:
        self.pending |= {checkpoint}


class Offered:
    """What is offered for release."""

    def __init__(self) -> None:
        self.steps: list[list[int]] = []

    def offer(self, checkpoints: list[Checkpoint]) -> frozenset[Path]:
        self.steps.append([one.step for one in checkpoints])
        return frozenset()


def test_a_checkpoint_is_offered_for_release_once_it_has_the_states_of_experts_and_the_loop_does_not_wait(
    run: RunFile, ledger: Ledger, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
):
    settings = run.coordinator.model_copy(update={"checkpoint_every": 10})
    run = run.model_copy(update={"coordinator": settings})
    said, swarm = list[str](), Swarm(build_model(run, tokenizer))
    offered: Any = Offered()
    states, context = HeldStates(), RunContext(run, OURS, tmp_path, ledger, said.append)
    with Running(context, swarm, tokenizer, releaser=offered, experts=states):
        for step in (10, 20):
            swarm.step = step
            wait_for(said, f"global step {step}: saved")
        assert offered.steps == [[], []]
        first = min(states.pending, key=lambda path: path.name)
        states.pending -= {first}
        wait_until(lambda: offered.steps[-1] == [10], "offer of the first checkpoint")
        states.pending = frozenset()
        wait_until(lambda: offered.steps[-1] == [10, 20], "offer of both checkpoints")
    assert len(offered.steps) == 4, "only when there is something new"


def test_a_checkpoint_that_waited_when_the_coordinator_was_killed_is_offered_once_its_states_are_there(
    run: RunFile,
    ledger: Ledger,
    tokenizer: PreTrainedTokenizerFast,
    state_folder: Path,
    make_checkpoint: MakeCheckpoint,
) -> None:
    offered, states = Offered(), HeldStates()
    states.pending = frozenset({make_checkpoint(10).path})
    context = RunContext(run, OURS, state_folder, ledger, lambda line: None)
    with Running(context, Swarm(build_model(run, tokenizer)), tokenizer, releaser=offered, experts=states):  # type: ignore[arg-type]
        states.pending = frozenset()
        wait_until(lambda: offered.steps == [[10]], "its offer")


def test_evaluations_are_compared_with_word_frequencies_as_soon_as_those_are_counted(
    run: RunFile, ledger: Ledger, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
):
    said = list[str]()
    context, swarm, held_out = evaluated_at_each_step(run, ledger, tokenizer, tmp_path, said)
    for one in swarm.model.parameters():
        one.data *= 30.0  # the first state is worse than the second
    with Running(context, swarm, tokenizer, held_out) as running:
        wait_for(said, "global step 1: saved")
        assert running.told == []
        assert not any("word frequencies" in line for line in said)
        running.baseline.loss = 30.0
        (tmp_path / RANDOM).touch()
        wait_for(said, "Guessing from word frequencies alone has a held-out loss of 30.000.")
        for one in swarm.model.parameters():
            one.data /= 30.0
        swarm.step = 2
        wait_for(said, "global step 2: saved")
        wait_until(lambda: running.told, "news")
        assert "global step 2 of 1000 is the best so far. Held-out loss: " in running.told[0]
    losses = {one.step: one.loss for one in ledger.evaluations()}
    assert any(
        f"loss {losses[2]:.3f}, {30.0 - losses[2]:.2f} lower than guessing from word freq" in line for line in said
    )
    assert {one.step: one.unigram_loss for one in ledger.evaluations() if one.step in (1, 2)} == {1: 30.0, 2: 30.0}
    older, newer = (one.state for one in list_checkpoints(context.checkpoints))
    assert (older.unigram_loss, older.below_unigram) == (None, None)
    assert (newer.unigram_loss, newer.below_unigram) == (30.0, 30.0 - losses[2])
    assert (older.random_embeddings, newer.random_embeddings) == (False, True)


def test_what_a_rollback_is_about_to_undo_is_no_checkpoint(
    run: RunFile, ledger: Ledger, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    said = list[str]()
    context, swarm, held_out = evaluated_at_each_step(run, ledger, tokenizer, tmp_path, said)
    turns = threading.Semaphore(0)
    swarm.follow_order = turns.release

    def diverged(loss: float) -> bool:
        swarm.is_proposed = True
        return True

    swarm.roll_back_if_bad = diverged
    with Running(context, swarm, tokenizer, held_out):
        wait_until(lambda: swarm.is_proposed, "the evaluation")
        assert all(turns.acquire(timeout=PATIENCE) for _ in range(5))  # the quorum takes its time
    assert list_checkpoints(context.checkpoints) == []
    assert not any("saved" in line for line in said)


def test_rollbacks_that_nobody_has_looked_at_when_the_coordinator_stops_are_noted_and_saved(
    run: RunFile, ledger: Ledger, tokenizer: PreTrainedTokenizerFast, state_folder: Path
):
    """Or the checkpoints that it has undone would count again after a restart."""
    swarm: Any = Swarm(build_model(run, tokenizer), step=30, is_proposed=True)
    noted, restored = list[tuple[int, int]](), [(replace(swarm.snapshot(), step=31), 20), (swarm.snapshot(), 10)]

    def note(step: int, older: int) -> None:
        noted.append((step, older))
        swarm.is_proposed = False

    swarm.note_rollback, swarm.losses = note, list
    swarm.restored = lambda: restored.pop() if restored else None
    context = RunContext(run, OURS, state_folder, ledger, lambda line: None)
    with Running(context, swarm, tokenizer) as running:
        running.stop.set()
    assert noted == [(30, 10), (31, 20)]
    assert [one.step for one in list_checkpoints(context.checkpoints)] == [30, 31]
