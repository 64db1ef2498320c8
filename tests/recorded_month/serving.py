"""The coordinator's real HTTP service over the month's ledger, without a swarm."""

import contextlib
import datetime
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from coordinator.access.admin_key import load_admin_key
from coordinator.access.decisions import NoticeStore
from coordinator.checkpoints.checkpoint import STATE, TrainerState
from coordinator.checkpoints.checksums import write_sums
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
from swarm.run_file import RunFile
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
    """Those that a coordinator would have kept by now, but without tensors."""
    every = run.coordinator.checkpoint_every
    scored = {one.step: one for one in ledger.evaluations() if one.step % every == 0}
    losses = {step: one.loss for step, one in scored.items()}
    for step in checkpoints_to_remove(losses, run.coordinator.keep_checkpoints, run.coordinator.keep_every):
        del scored[step]
    for one in scored.values():
        _write_checkpoint(folder / f"checkpoint-{one.step}", run, one)


def _write_checkpoint(path: Path, run: RunFile, scores: EvaluationRecord) -> None:
    path.mkdir(parents=True, exist_ok=True)
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
    write_sums(path)


def _write_tokenizer(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text("{}")
