"""The coordinator's real HTTP service over the month's ledger, without a swarm."""

import contextlib
import datetime
import io
import json
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import numpy as np
from safetensors.numpy import save_file

from coordinator.access.admin_key import load_admin_key
from coordinator.access.decisions import NoticeStore
from coordinator.checkpoints.checkpoint import CONFIG, MODEL, OPTIMIZER, RUN, STATE, TrainerState
from coordinator.checkpoints.retention import checkpoints_to_remove
from coordinator.evaluation.evaluator import perplexity
from coordinator.http.app import make_app
from coordinator.http.server import Server
from coordinator.ledger.answers import EvaluationRecord
from coordinator.ledger.ledger import Ledger, open_ledger
from coordinator.run_context import RunStatus, ServiceContext
from coordinator.state_folder import ADMIN_KEY
from experts.directory.records import Listed
from swarm.access.passes import load_authority
from swarm.run_file import RunFile, dump_run
from swarm.run_file.fingerprint import fingerprint
from tests.recorded_month.going_on import GoingOn
from tests.support.waiting import PATIENCE


@dataclass(frozen=True)
class Served:
    """What is being served, and how to give it orders."""

    url: str
    context: ServiceContext
    report: Callable[[], None]
    """Have those who were there at the beginning report once more: two minutes later they would be gone."""

    def ask(self, path: str) -> httpx.Response:
        """What it answers to a question of its API."""
        answer = httpx.get(f"{self.url}/api/{path}", timeout=PATIENCE, trust_env=False)
        assert answer.status_code == 200, answer.text
        return answer


@contextlib.contextmanager
def serving(
    run: RunFile, folder: Path, port: int = 0, *, going_on: bool = True, hosts: Callable[[], list[Listed]] = list
) -> Iterator[Served]:
    """Serve the ledger in the folder while the block runs; with `going_on` the swarm is still at work.

    Args:
        hosts: of experts.
    """
    ledger = open_ledger(run.coordinator.ledger, folder)
    _write_tokenizer(folder / "tokenizer")
    write_checkpoints(folder / "checkpoints", run, ledger)
    authority = load_authority(folder / "authority.key")
    swarm = GoingOn(run, ledger)
    context = ServiceContext(
        run=run,
        fingerprint=fingerprint(run, "a" * 64),
        folder=folder,
        ledger=ledger,
        say=print,
        tokenizer_folder=folder / "tokenizer",
        authority=authority,
        notices=NoticeStore(folder, authority, run.name),
        admin_key=load_admin_key(folder / ADMIN_KEY),
        status=lambda: RunStatus(
            swarm.step if ledger.progress().loss is not None else 0, swarm.gathered(), time.time()
        ),
        addresses=list,
        order_rollback=lambda step: None,
        hosts=hosts,
    )
    server = Server(make_app(context), "127.0.0.1", port)
    if going_on:
        swarm.start()
    try:
        yield Served(server.url, context, lambda: swarm.tell(time.time()))
    finally:
        if going_on:
            swarm.stop()
        server.stop()
        ledger.close()


def write_checkpoints(folder: Path, run: RunFile, ledger: Ledger) -> None:
    """Those that a coordinator would have kept by now: whole, but for the size of their tensors."""
    every = run.coordinator.checkpoint_every
    scored = {one.step: one for one in ledger.evaluations() if one.step % every == 0}
    losses = {step: one.loss for step, one in scored.items()}
    for step in checkpoints_to_remove(losses, run.coordinator.keep_checkpoints, run.coordinator.keep_every):
        del scored[step]
    for one in scored.values():
        _write_checkpoint(folder / f"checkpoint-{one.step}", run, one)


def _write_checkpoint(path: Path, run: RunFile, scores: EvaluationRecord) -> None:
    path.mkdir(parents=True, exist_ok=True)
    save_file({"weight": np.zeros(1, np.float32)}, path / MODEL)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr("data", b"")
    (path / OPTIMIZER).write_bytes(archive.getvalue())
    for name in (CONFIG, "tokenizer.json", "tokenizer_config.json"):
        (path / name).write_text("{}")
    (path / RUN).write_text(dump_run(run), encoding="utf-8")
    state = TrainerState(
        run=run.name,
        step=scores.step,
        samples=scores.step * run.averaging.target_batch_size,
        eval_loss=scores.loss,
        saved_at=datetime.datetime.fromtimestamp(scores.time, datetime.timezone.utc).isoformat(timespec="seconds"),
        fingerprint="0123456789abcdef",
        software="sahaj",
        perplexity=perplexity(scores.loss),
        sentence_order_accuracy=scores.sentence_order_accuracy,
        unigram_loss=scores.unigram_loss,
        below_unigram=scores.below_unigram,
    )
    (path / STATE).write_text(json.dumps(asdict(state)))


def _write_tokenizer(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text("{}")
