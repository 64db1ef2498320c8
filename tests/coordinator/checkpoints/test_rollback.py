import errno
import json
import math
import queue
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from averaging.log.header import HeaderKind
from coordinator.checkpoints.checkpoint import Checkpoint, CheckpointError, TrainerState
from coordinator.checkpoints.retention import prune
from coordinator.checkpoints.rollback import Rollback
from coordinator.checkpoints.rollback_policy import BAD_STEPS, ENOUGH_STEPS, has_exploded, is_bad, newest_good
from coordinator.checkpoints.store import LoadedCheckpoint
from coordinator.ledger.ledger import Ledger
from coordinator.run_context import RunContext
from coordinator.state_folder import CHECKPOINTS, ROLLBACKS
from swarm.errors import StorageError
from swarm.run_file import RunFile
from tests.averaging.log.headers import header
from tests.coordinator.release.conftest import OURS, MakeCheckpoint
from tests.coordinator.release.conftest import ledger as ledger
from tests.coordinator.release.conftest import make_checkpoint as make_checkpoint
from tests.coordinator.release.conftest import run as run
from tests.coordinator.release.conftest import state_folder as state_folder
from tests.coordinator.release.conftest import tokenizer as tokenizer

FALLING = [9.0 * 0.97**step + 2.0 for step in range(60)]
JUMP = [8.0] * BAD_STEPS


def test_a_loss_that_jumps_and_stays_has_exploded() -> None:
    assert has_exploded([*FALLING, *JUMP])
    assert has_exploded([*FALLING, *[math.inf] * BAD_STEPS])
    assert has_exploded([*FALLING, *[math.nan] * BAD_STEPS])


@pytest.mark.parametrize(
    "losses",
    [
        [],
        JUMP,
        FALLING,
        [*FALLING, *JUMP[1:]],  # not long enough
        [*FALLING, 8.0, 3.5, 8.0],  # not in a row
        [*FALLING[:ENOUGH_STEPS], *[50.0] * (BAD_STEPS - 1)],
        [9.0] * 5 + [50.0] * BAD_STEPS,  # what is usual is not known yet
        [*FALLING[-20:], *[FALLING[-1] + 0.5] * BAD_STEPS],  # a little worse: other text
    ],
)
def test_a_loss_that_is_in_order_has_not(losses: list[float]) -> None:
    assert not has_exploded(losses)


def test_noise_is_no_explosion() -> None:
    draw = random.Random(1)
    losses = [5.0 + draw.gauss(0.0, 0.5) for _ in range(2000)]
    assert not any(has_exploded(losses[max(0, end - 60) : end]) for end in range(len(losses)))


def test_the_newest_checkpoint_that_is_in_order_is_chosen() -> None:
    losses = {10: 5.0, 20: 3.0, 30: 3.9, 40: None, 50: 4.1, 60: math.nan}
    checkpoints = [Checkpoint(Path(str(step)), step, state(step, loss)) for step, loss in losses.items()]
    chosen = newest_good(checkpoints, best=3.0)
    assert chosen is not None and chosen.step == 30
    assert newest_good(checkpoints[3:], best=3.0) is None


def state(step: int, loss: float | None) -> TrainerState:
    return TrainerState("river", step, 64 * step, loss, "2026-01-01T00:00:00+00:00", "0123", "sahaj")


@pytest.mark.parametrize(
    ("loss", "best", "bad"),
    [(3.5, 3.0, False), (2.5, 3.0, False), (4.1, 3.0, True), (math.nan, 3.0, True), (9.0, math.inf, False)],
)
def test_a_held_out_loss_far_above_the_best_is_bad(loss: float, best: float, bad: bool) -> None:
    assert is_bad(loss, best) is bad


def test_the_steps_that_a_rollback_undoes_are_known_once_a_quorum_has_agreed(
    run: RunFile, state_folder: Path, make_checkpoint: MakeCheckpoint
):
    orders, said = queue.SimpleQueue[int](), list[str]()
    make_checkpoint(100)
    ordered: list[int] = []
    log: Any = SimpleNamespace(step=190, roll_back=lambda older: ordered.append(older.trainer_state.step))
    nobody: Any = None
    rollback = Rollback(RunContext(run, OURS, state_folder, nobody, said.append), log, orders)
    orders.put(100)
    rollback.follow_order()
    assert ordered == [100] and not rollback.is_abandoned(150)
    make_checkpoint(150)
    assert [one.step for one in rollback.checkpoints()] == [100, 150]
    rollback.note_rollback(300, 100)  # minutes later perhaps: a quorum has to agree
    assert [step for step in (50, 100, 101, 190, 299, 300, 310) if rollback.is_abandoned(step)] == [101, 190, 299]
    assert [one.step for one in rollback.checkpoints()] == [100]
    assert said == ["Ordered by the organizer: the swarm goes back to the state of global step 100, as global step 300"]
    again, earlier = (
        Rollback(RunContext(run, OURS, state_folder, nobody, said.append), SimpleNamespace(step=step), orders)  # type: ignore[arg-type]
        for step in (300, 100)
    )
    assert again.is_abandoned(190) and not again.is_abandoned(300)
    assert not earlier.is_abandoned(190), "a run that begins again at an older state takes that step anew"


def test_a_rollback_that_an_earlier_coordinator_proposed_undoes_as_much(
    run: RunFile, state_folder: Path, make_checkpoint: MakeCheckpoint
):
    good, said, orders = make_checkpoint(100), list[str](), queue.SimpleQueue[int]()
    make_checkpoint(150)
    log, nobody = SimpleNamespace(step=190), None
    told = list[Path | None]()
    context = RunContext(run, OURS, state_folder, nobody, said.append)  # type: ignore[arg-type]
    rollback = Rollback(context, log, orders, told.append)  # type: ignore[arg-type]
    rollback.note_rollback(200, 100)
    assert told == [good.path]
    assert [one.step for one in rollback.checkpoints()] == [100]
    assert said == ["It was proposed earlier: the swarm goes back to the state of global step 100, as global step 200"]
    rollback.note_rollback(300, 99)
    assert told == [good.path, None]


def test_a_rollback_that_is_found_in_the_log_alone_undoes_as_much(
    run: RunFile, state_folder: Path, make_checkpoint: MakeCheckpoint
):
    """The coordinator ended before it had noted it, or has loaded a snapshot of a later step."""
    good = make_checkpoint(100)
    make_checkpoint(150)
    make_checkpoint(299)
    said, told, targets = list[str](), list[Path | None](), {200: 100, 250: 150, 300: None}
    log: Any = SimpleNamespace(step=310, target_of=lambda rollback: targets[rollback.step])
    context = RunContext(run, OURS, state_folder, None, said.append)  # type: ignore[arg-type]
    rollback = Rollback(context, log, queue.SimpleQueue[int](), told.append)
    for _ in range(2):
        rollback.note_header(header(200, kind=HeaderKind.ROLLBACK))
    rollback.note_rollback(200, 100)
    again = Rollback(context, log, queue.SimpleQueue[int](), told.append)
    assert [one.step for one in again.checkpoints()] == [100, 299]
    assert json.loads((state_folder / ROLLBACKS).read_text()) == {"steps": [[101, 200]]}
    assert len(said) == 1 and said[0].endswith("goes back to the state of global step 100, as global step 200")
    for _ in range(2):
        again.note_header(header(300, kind=HeaderKind.ROLLBACK))  # of which the snapshot is gone
    again.note_header(header(250, kind=HeaderKind.ROLLBACK))  # a header that the disk had lost
    assert told == [good.path], "experts go back once, and not to a state that is not known"
    assert len(said) == 2
    assert "went back to an older state, as global step 300; remove the checkpoints of lower steps" in said[1]


def test_a_proposal_stands_until_the_run_goes_back_to_its_own_checkpoint(
    run: RunFile, state_folder: Path, make_checkpoint: MakeCheckpoint
):
    make_checkpoint(100)
    orders, log, said = queue.SimpleQueue[int](), SimpleNamespace(step=190, roll_back=lambda older: None), list[str]()
    rollback = Rollback(RunContext(run, OURS, state_folder, None, said.append), log, orders)  # type: ignore[arg-type]
    orders.put(100)
    rollback.follow_order()
    rollback.note_rollback(200, 50)
    assert rollback.is_proposed
    rollback.note_rollback(210, 100)
    assert not rollback.is_proposed
    assert [line.partition(":")[0] for line in said] == ["It was proposed earlier", "Ordered by the organizer"]


def test_a_run_that_diverges_does_not_go_back_to_what_was_undone(
    run: RunFile, ledger: Ledger, state_folder: Path, make_checkpoint: MakeCheckpoint
):
    make_checkpoint(100)
    make_checkpoint(200)
    ordered: list[int] = []
    log: Any = SimpleNamespace(step=210, roll_back=lambda older: ordered.append(older.trainer_state.step))
    orders = queue.SimpleQueue[int]()
    rollback = Rollback(RunContext(run, OURS, state_folder, ledger, lambda line: None), log, orders)
    orders.put(100)
    rollback.follow_order()
    rollback.note_rollback(211, 100)
    ledger.record_evaluation(100, 3.25, sentence_order_loss=None, samples=1)
    assert rollback.roll_back_if_bad(9.0)
    assert ordered == [100, 100]


def test_a_checkpoint_that_turns_out_to_be_broken_is_skipped_for_an_older_one(
    run: RunFile, ledger: Ledger, state_folder: Path, make_checkpoint: MakeCheckpoint
):
    make_checkpoint(100)
    broken = make_checkpoint(200).path / "model.safetensors"
    broken.write_bytes(broken.read_bytes()[:-1] + b"?")
    ordered: list[int] = []
    log: Any = SimpleNamespace(step=210, roll_back=lambda older: ordered.append(older.trainer_state.step))
    context = RunContext(run, OURS, state_folder, ledger, lambda line: None)
    assert Rollback(context, log, queue.SimpleQueue[int]()).roll_back_if_bad(9.0)
    assert ordered == [100]


@pytest.mark.parametrize("full", [False, True])
def test_a_rollback_waits_while_the_disk_does_not_give_or_take_it(
    run: RunFile,
    ledger: Ledger,
    state_folder: Path,
    make_checkpoint: MakeCheckpoint,
    monkeypatch: pytest.MonkeyPatch,
    full: bool,
):
    old, good = make_checkpoint(100), make_checkpoint(200)
    ordered, said = list[int](), list[str]()

    def roll_back(older: LoadedCheckpoint) -> None:
        if is_away:
            raise StorageError("contents: could not be saved, the disk is full; free some space")
        ordered.append(older.trainer_state.step)

    context = RunContext(run, OURS, state_folder, ledger, said.append)
    rollback = Rollback(context, SimpleNamespace(step=210, roll_back=roll_back), queue.SimpleQueue[int]())  # type: ignore[arg-type]
    is_away = True
    with monkeypatch.context() as away:
        if not full:
            fails = Mock(side_effect=OSError(errno.EIO, "Input/output error"))
            away.setattr("coordinator.checkpoints.store.check_sums", fails)
        assert not rollback.roll_back_if_bad(9.0), "the state is saved as it is"
    (line,) = said
    assert line.startswith("problem: ") and line.endswith("; the run goes on as it is")
    assert ("the disk is full" if full else "checkpoint-200 is broken") in line
    assert not rollback.is_proposed and [one.step for one in rollback.checkpoints()] == [100, 200]
    make_checkpoint(210, loss=9.0)
    assert prune(state_folder / CHECKPOINTS, rollback.checkpoints(), 1, spared=rollback.goals()) == [old.path]
    is_away = False
    assert rollback.roll_back_if_bad(9.0) and ordered == [200]
    assert rollback.goals() == {good.path}


def test_what_was_undone_counts_no_longer_and_the_checkpoint_gone_back_to_stays(
    run: RunFile, ledger: Ledger, state_folder: Path, make_checkpoint: MakeCheckpoint
):
    good, undone = make_checkpoint(100, loss=3.25), make_checkpoint(150, loss=2.0)
    ledger.record_evaluation(150, 2.0, sentence_order_loss=None, samples=1)
    orders, log = queue.SimpleQueue[int](), SimpleNamespace(step=210, roll_back=lambda older: None)
    rollback = Rollback(RunContext(run, OURS, state_folder, ledger, lambda line: None), log, orders)  # type: ignore[arg-type]
    assert rollback.losses() == [3.25, 2.0]
    orders.put(100)
    rollback.follow_order()
    assert rollback.goals() == {good.path}
    rollback.note_rollback(211, 100)
    assert rollback.losses() == [3.25]
    assert not rollback.roll_back_if_bad(3.5), "far above the loss that was undone, but near the one that counts"
    make_checkpoint(300, loss=3.0)
    assert prune(state_folder / CHECKPOINTS, rollback.checkpoints(), 1, spared=rollback.goals()) == [undone.path]


def test_an_order_for_a_checkpoint_that_was_removed_names_it_and_those_there_are(
    run: RunFile, state_folder: Path, make_checkpoint: MakeCheckpoint
):
    make_checkpoint(100)
    make_checkpoint(150)
    orders, context = queue.SimpleQueue[int](), RunContext(run, OURS, state_folder, None, print)  # type: ignore[arg-type]
    rollback = Rollback(context, SimpleNamespace(step=190), orders)  # type: ignore[arg-type]
    orders.put(50)
    with pytest.raises(CheckpointError, match="no whole checkpoint of global step 50; there are: 100, 150"):
        rollback.follow_order()
    assert not rollback.is_proposed


def test_a_run_that_cannot_go_back_says_so_and_goes_on(run: RunFile, ledger: Ledger, state_folder: Path):
    said, nothing = list[str](), queue.SimpleQueue[int]()
    rollback = Rollback(RunContext(run, OURS, state_folder, ledger, said.append), SimpleNamespace(step=210), nothing)  # type: ignore[arg-type]
    assert not rollback.roll_back_if_bad(9.0), "or the model would not be saved"
    reason = "The held-out loss has risen from 3.25 to 9.00, but there is no good checkpoint to go back to"
    assert said == [f"problem: {reason}; the run goes on as it is"]
