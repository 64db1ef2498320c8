"""A small run's checkpoints, a ledger that knows who brought what, and a Hub to release them on."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from coordinator.checkpoints.checkpoint import Checkpoint, TrainerState, list_checkpoints
from coordinator.checkpoints.store import save_checkpoint
from coordinator.ledger.ingest import SessionReport
from coordinator.ledger.ledger import Ledger, open_ledger
from coordinator.public_run import for_everybody
from swarm.run_file import RunFile, parse_run
from swarm.run_file.fingerprint import Fingerprint
from tests.coordinator.conftest import SENTENCES as SENTENCES
from tests.coordinator.conftest import SMALL_MODEL
from tests.support.hub.repositories import Repository
from tests.support.hub.stand_in import HubStandIn
from tests.support.hub.stand_in import hub_stand_in as hub_stand_in
from tokenizer.training import train_tokenizer
from trainer.model import build_model, vocabulary_of

REPO = "river/boats"
OURS = Fingerprint((("model", "small"),))
FINGERPRINT = OURS.digest
MakeCheckpoint = Callable[..., Checkpoint]


@pytest.fixture(scope="session")
def run() -> RunFile:
    return parse_run(
        {
            "name": "river-run",
            "description": "An ALBERT that has read about a river.",
            "language": "en",
            "model": SMALL_MODEL,
            "tokenizer": {"vocab_size": 96},
            "data": {
                "train": [
                    {"hub": "river/texts", "config": "en", "weight": 3.0, "license": "cc-by-sa-4.0"},
                    {"path": "/home/asha/river.txt"},
                ],
                "validation": [{"hub": "river/texts", "split": "test", "license": "cc-by-sa-4.0"}],
                "max_length": 64,
            },
            "optimizer": {"warmup_steps": 2, "total_steps": 1000},
            "coordinator": {"probes": ["The river carries the [MASK]."]},
            "access": {"users": ["asha", "boat"]},
            "release": {
                "repo": REPO,
                "every": 100,
                "milestones": 300,
                "license": "apache-2.0",
                "contributors": "verified",
            },
        },
        Path("run.yaml"),
    )


@pytest.fixture(scope="session")
def tokenizer(run: RunFile) -> PreTrainedTokenizerFast:
    return train_tokenizer(run, SENTENCES * 20)


@pytest.fixture
def make_checkpoint(tmp_path: Path, run: RunFile, tokenizer: PreTrainedTokenizerFast) -> MakeCheckpoint:
    """`make_checkpoint(100)`: a checkpoint of that global step in the state folder, whose weights are its own."""

    def make(
        step: int,
        *,
        loss: float | None = 3.25,
        folder: Path = tmp_path / "state" / "checkpoints",
        random_embeddings: bool = False,
    ) -> Checkpoint:
        model = build_model(run, tokenizer)
        with torch.no_grad():
            vocabulary_of(model)[1].add_(float(step))
        state = TrainerState(
            run="river-run",
            step=step,
            samples=64 * step,
            eval_loss=loss,
            saved_at="2026-01-01T00:00:00+00:00",
            fingerprint=FINGERPRINT,
            software="0.1.0, torch 2",
            perplexity=None if loss is None else 25.8,
            sentence_order_accuracy=None if loss is None else 0.75,
            unigram_loss=None if loss is None else 5.5,
            below_unigram=None if loss is None else 5.5 - loss,
            random_embeddings=random_embeddings,
        )
        moments = {"state": {0: {"exp_avg": torch.full((64,), float(step))}}}
        public = for_everybody(run)
        path = save_checkpoint(
            folder, model=model, tokenizer=tokenizer, optimizer_state=moments, run=public, state=state
        )
        return next(one for one in list_checkpoints(folder) if one.path == path)

    return make


@pytest.fixture
def state_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def ledger(state_folder: Path, report: Callable[..., SessionReport]) -> Iterator[Ledger]:
    """Asha brought three quarters of the samples, somebody without an account the rest."""
    opened = open_ledger("sqlite:///ledger.db", state_folder)
    for now in (1000.0, 1090.0):
        asha = report("a", device="Tesla T4", last_seen=now, steps={0: (150, 9.0), 1: (150, 8.0)})
        steps = {0: (50, 9.0), 1: (50, 8.0)}
        visitor = report("b", user="~visitor", device="cpu (2 threads)", last_seen=now, steps=steps)
        opened.record([asha, visitor], now=now)
    for step, loss in ((0, 9.0), (50, 5.0), (100, 3.25)):
        opened.record_evaluation(
            step, loss, sentence_order_loss=0.5, samples=16, sentence_order_accuracy=0.75, unigram_loss=5.5
        )
    yield opened
    opened.close()


@pytest.fixture
def hub(hub_stand_in: HubStandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> HubStandIn:
    """The Hub, to which this process comes with a token that may write to `river`; its own pauses are short."""
    monkeypatch.setenv("HF_TOKEN", hub_stand_in.add("asha", "river", role="write"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "hf-home" / "token"))
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", _Briefly())
    return hub_stand_in


class _Briefly:
    """Sleeping for a moment, however long it should be."""

    def __init__(self) -> None:
        import time

        self._sleep = time.sleep

    def __call__(self, seconds: float) -> None:
        self._sleep(min(seconds, 0.01))


def repository(hub: HubStandIn) -> Repository:
    """What is there of the releases."""
    return hub.repositories.by_name[REPO]
