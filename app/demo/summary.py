"""The figures of a demo, in `summary.json`, and whether everything happened as it should."""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from app.demo.experts import ExpertsSummary, experts_problems
from app.demo.peers import FIRST_SAMPLE, Peer
from coordinator.checkpoints.checkpoint import newest_checkpoint
from coordinator.ledger.ledger import Ledger
from coordinator.state_folder import CHECKPOINTS
from swarm.access.user_names import UNVERIFIED
from swarm.files import write_file
from swarm.run_file import RunFile

SUMMARY = "summary.json"
DATA_WAIT_LIMIT = 0.02  # fraction of the time that a trainer may wait for data


@dataclass(frozen=True)
class PeerSummary:
    """One trainer: its samples that went into global steps, and how it ended."""

    name: str
    samples: int
    client_mode: bool
    fate: str
    first_sample_seconds: float | None  # from process start to its first counted sample


@dataclass(frozen=True)
class Summary:
    """The figures of a demo. Losses are held out, in nats.

    `below_unigram` is how far the last held-out loss is below that of a table of word frequencies, if that is known.
    """

    steps: int
    samples: int
    seconds: float
    samples_per_second: float  # from the first trainer's start to the last global step
    eval_loss_first: float
    eval_loss_last: float
    below_unigram: float | None
    peers: list[PeerSummary]
    averaging_rounds: int  # global steps in which gradients were averaged
    averaging_failures: int  # rounds that failed and were repeated, as the peer that saw most of them counted
    checkpoint: str
    data_wait_fraction: float  # of the trainer that waited most
    experts: ExpertsSummary | None = None


def summarize(trainers: list[Peer], ledger: Ledger, out: Path, *, seconds: float, training: float) -> Summary:
    """Collect the figures from ledger, logs and checkpoints. `training` is the time that trainers ran, in seconds."""
    steps, evaluations, sessions = ledger.steps(), ledger.evaluations(), ledger.sessions()
    samples = Counter[str]()
    for session in sessions:  # one that loses the swarm and joins again has several
        samples[session.user] += session.samples
    newest = newest_checkpoint(out / "coordinator" / CHECKPOINTS)
    nothing = float("nan")
    return Summary(
        steps=len(steps),
        samples=sum(samples.values()),
        seconds=round(seconds, 1),
        samples_per_second=round(sum(samples.values()) / training, 1),
        eval_loss_first=evaluations[0].loss if evaluations else nothing,
        eval_loss_last=evaluations[-1].loss if evaluations else nothing,
        below_unigram=evaluations[-1].below_unigram if evaluations else None,
        peers=[
            PeerSummary(
                name=peer.name,
                samples=samples[UNVERIFIED + peer.name],
                client_mode=peer.client_mode,
                fate=peer.fate,
                first_sample_seconds=next(map(float, peer.said(FIRST_SAMPLE)), None),
            )
            for peer in trainers
        ],
        averaging_rounds=sum(one.peers > 1 for one in steps),
        averaging_failures=max((one.averaging_failures for one in sessions), default=0),
        checkpoint=str(newest.path) if newest else "",
        data_wait_fraction=round(max((one.data_wait_fraction for one in sessions), default=nothing), 4),
    )


def problems(run: RunFile, summary: Summary) -> list[str]:
    """What did not happen as it should have; empty if everything did."""
    found = []
    total = run.optimizer.total_steps
    if summary.steps < total:
        found.append(f"{total - summary.steps} of {total} global steps are missing in the ledger")
    if not summary.eval_loss_last < summary.eval_loss_first:
        found.append(f"the held-out loss did not fall: {summary.eval_loss_first:.3f} to {summary.eval_loss_last:.3f}")
    if not summary.checkpoint.endswith(f"checkpoint-{total}"):
        found.append(f"the checkpoint of global step {total} is missing")
    if summary.data_wait_fraction > DATA_WAIT_LIMIT:
        found.append(f"a trainer waited for data {summary.data_wait_fraction:.1%} of the time")
    for peer in summary.peers:
        if peer.samples == 0:
            found.append(f"{peer.name} contributed nothing")
        if "error" in peer.fate:
            found.append(f"{peer.name} {peer.fate}")
    return found + (experts_problems(summary.experts) if summary.experts else [])


def save_summary(summary: Summary, out: Path) -> Path:
    """Write `summary.json`; returns its path."""
    path = out / SUMMARY
    write_file(path, json.dumps(asdict(summary), indent=2, ensure_ascii=False) + "\n")
    return path
