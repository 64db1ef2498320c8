"""The bookkeeper saves, the releaser uploads: what is saved while the swarm trains comes to the Hub by itself."""

import queue
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from coordinator.checkpoints.retention import list_checkpoints
from coordinator.checkpoints.rollback import Recall, Reins
from coordinator.evaluation.unigram_count import UnigramBaseline
from coordinator.ledger.ledger import Ledger
from coordinator.ledger.minutes import MinuteRecorder
from coordinator.main_loop import Bookkeeper, Office
from coordinator.public_run import for_everybody
from coordinator.release.uploader import ReleaseOffice, Releaser
from coordinator.replica import Snapshot
from coordinator.tracking import Tracker
from swarm.run_file import RunFile, load_run
from tests.coordinator.release.conftest import FINGERPRINT, SENTENCES, MakeCheckpoint, repository
from tests.support.hub_repositories import Line
from tests.support.hub_stand_in import HubStandIn
from tests.support.waiting import PATIENCE, wait_until
from trainer.data import Batch, validation_batches
from trainer.model import PretrainingModel, build_model


@dataclass
class Swarm:
    """A swarm as the bookkeeper sees it: at a global step, with a state, and nobody who tells anything."""

    model: PretrainingModel
    step: int = 0
    worries: list[int] = field(default_factory=list)
    left_behind: tuple[int, ...] = ()
    has_stopped: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.has_stopped.set()

    def snapshot(self) -> Snapshot:
        """The newest state."""
        state = {name: one.detach() + float(self.step) for name, one in self.model.named_parameters()}
        return Snapshot(self.step, state, {"state": {0: {"exp_avg": torch.ones(4)}}})

    def restored(self) -> Snapshot | None:
        """The swarm has not gone back."""
        return None

    def is_left_behind(self, step: int) -> bool:
        """Whether the swarm has gone back from there."""
        return step in self.left_behind

    def bring_up_to_date(self, *, final: bool = False) -> int:
        """There are no sessions."""
        return 0

    def follow_order(self) -> None:
        """There is none."""

    def is_worried(self, step: int) -> bool:
        """No."""
        return False


def office_of(
    run: RunFile,
    ledger: Ledger,
    tokenizer: PreTrainedTokenizerFast,
    folder: Path,
    held_out: list[Batch],
    said: list[str],
    releaser: Releaser | None = None,
) -> Office:
    """Checkpoints go into the folder, and what is told to people into `said`."""
    return Office(
        run=run,
        fingerprint=FINGERPRINT,
        folder=folder,
        tokenizer=tokenizer,
        model=build_model(run, tokenizer),
        held_out=held_out,
        baseline=UnigramBaseline(run, tokenizer, held_out, said.append, threading.Event()),
        ledger=ledger,
        tracker=Tracker(),
        say=said.append,
        autocast=False,
        historian=MinuteRecorder(ledger),
        probes=[],
        releaser=releaser,
    )


def test_the_books_go_on_while_a_checkpoint_uploads_and_it_stays_until_then(
    hub: HubStandIn,
    run: RunFile,
    ledger: Ledger,
    tokenizer: PreTrainedTokenizerFast,
    state_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("coordinator.main_loop.LOOK_EVERY", 0.05)
    settings = run.coordinator.model_copy(update={"checkpoint_every": 10, "keep_checkpoints": 1})
    run = run.model_copy(update={"coordinator": settings})
    said: list[str] = []
    swarm: Any = Swarm(build_model(run, tokenizer))
    assert run.release is not None
    releaser = Releaser(ReleaseOffice(run, run.release, FINGERPRINT, state_folder, ledger, said.append))
    office = office_of(run, ledger, tokenizer, state_folder / "checkpoints", [], said, releaser)
    line, stop = Line(held_after=1000), threading.Event()
    hub.repositories.lines.append(("PUT /lfs/", line))
    releaser.start()
    books = threading.Thread(target=Bookkeeper(office, swarm, swarm, swarm, evaluated=-1, saved=-1).work, args=(stop,))
    books.start()
    try:
        for step in (10, 100, 110, 120):
            swarm.step = step
            _wait_for(said, f"global step {step}: saved")
            if step == 100:
                assert line.holding.wait(PATIENCE)
        assert [one.step for one in list_checkpoints(office.folder)] == [100, 120]
        assert len(repository(hub).revisions) == 1
        line.go_on.set()
        _wait_for(said, "global step 100: released")
        swarm.step = 130
        _wait_for(said, "global step 130: saved")
        assert [one.step for one in list_checkpoints(office.folder)] == [130]
        swarm.left_behind = (200,)  # from which the swarm has gone back
        swarm.step = 200
        _wait_for(said, "global step 200: saved")
        swarm.step = 210
        _wait_for(said, "global step 210: released")
    finally:
        line.go_on.set()
        stop.set()
        books.join(PATIENCE)
        releaser.finish(PATIENCE)
    assert not books.is_alive() and not any(line.startswith("problem") for line in said), said
    assert [one.title for one in repository(hub).revisions[1:]] == [
        "Global step 100: not evaluated",
        "Global step 210: not evaluated",
    ]


def test_evaluations_are_compared_with_word_frequencies_as_soon_as_those_are_counted(
    run: RunFile, ledger: Ledger, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("coordinator.main_loop.LOOK_EVERY", 0.05)
    settings = run.coordinator.model_copy(update={"evaluate_every": 1, "checkpoint_every": 1})
    run = run.model_copy(update={"coordinator": settings})
    said, stop = list[str](), threading.Event()
    swarm: Any = Swarm(build_model(run, tokenizer), step=1)
    held_out = validation_batches(run, [" ".join(SENTENCES)] * 20, tokenizer, 4)
    office = office_of(run, ledger, tokenizer, tmp_path / "checkpoints", held_out, said)
    swarm.go_back_if_bad = lambda loss: False
    books = threading.Thread(target=Bookkeeper(office, swarm, swarm, swarm, evaluated=-1, saved=-1).work, args=(stop,))
    books.start()
    try:
        _wait_for(said, "global step 1: saved")
        assert not any("word frequencies" in line for line in said)
        office.baseline.loss = 30.0
        _wait_for(said, "A table of word frequencies has a held-out loss of 30.000.")
        swarm.step = 2
        _wait_for(said, "global step 2: saved")
    finally:
        stop.set()
        books.join(PATIENCE)
    losses = {one.step: one.loss for one in ledger.evaluations()}
    assert any(f"loss {losses[2]:.3f}, {30.0 - losses[2]:.2f} below a table of word freq" in line for line in said)
    assert {one.step: one.unigram_loss for one in ledger.evaluations() if one.step in (1, 2)} == {1: 30.0, 2: 30.0}
    older, newer = (one.state for one in list_checkpoints(office.folder))
    assert (older.unigram_loss, older.below_unigram) == (None, None)
    assert (newer.unigram_loss, newer.below_unigram) == (30.0, 30.0 - losses[2])


def test_what_the_swarm_has_gone_back_from_is_known_once_it_has_agreed(make_checkpoint: MakeCheckpoint):
    good, orders, said = make_checkpoint(100), queue.SimpleQueue[int](), list[str]()
    ordered: list[int] = []
    log: Any = SimpleNamespace(step=190, roll_back=lambda older: ordered.append(older.trainer_state.step))
    nobody: Any = None
    recall = Recall(Reins(log, orders, nobody, good.path.parent, said.append))
    orders.put(100)
    recall.follow_order()
    assert ordered == [100] and not recall.is_left_behind(150)
    recall.went_back(300)  # minutes later perhaps: a quorum has to agree
    assert [step for step in (50, 100, 101, 190, 299, 300, 310) if recall.is_left_behind(step)] == [101, 190, 299]
    assert said == ["The organizer wants it: the swarm goes back to the state of global step 100, as global step 300"]


def test_the_run_file_in_a_release_names_no_people_and_no_folders(run: RunFile, tmp_path: Path):
    from swarm.run_file import dump_run

    secret = run.coordinator.model_copy(update={"ledger": "postgresql://asha:password@host/db"})
    tokenizer = run.tokenizer.model_copy(update={"path": "~asha/words"})
    text = dump_run(for_everybody(run.model_copy(update={"coordinator": secret, "tokenizer": tokenizer})))
    assert not any(word in text for word in ("asha", "password", "/home/", "boat\n"))
    (tmp_path / "run.yaml").write_text(text)
    read = load_run(tmp_path / "run.yaml")
    assert read.data.train[1].path == "river.txt" and read.optimizer == run.optimizer


def _wait_for(said: list[str], what: str) -> None:
    wait_until(lambda: any(what in line for line in said), lambda: f"{what!r} in {said}")
