"""The courses of all attacks, shares and seeds, and what they come to."""

import multiprocessing
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from app.demo.corpus import prepare_corpus
from app.demo.demo import DEFAULT_RUN
from benchmarks.learning.learner import HeldOut, begun, make_tokenizer
from benchmarks.poison.attacks import ATTACKS, NO_ATTACK, Attack
from benchmarks.poison.course import Course, Peer, peer_with, weights_with
from swarm.run_file import DataSource, RunFile, load_run, parse_run

SHARES = {6: 1, 15: 1, 25: 2}  # percent of the weight, and how many liars have it
FOREIGN = (32, 64, 128)  # samples of the honest peers whose text is another
DIFFERENCES = ("above", "by_liars")  # of losses
UNDEFENDED = 2  # seeds that are measured without `access.robust`, too
CHANGES: dict[str, dict[str, Any]] = {  # of the demo's run: smaller, as there are many runs, and yet of 11 chunks
    "model": {"hidden_size": 32, "embedding_size": 32, "intermediate_size": 128, "num_attention_heads": 2},
    "tokenizer": {"path": "tokenizer", "vocab_size": 2048, "max_documents": 500},
    "data": {"max_length": 16, "validation_samples": 512},
    "optimizer": {"learning_rate": 1.2e-2},  # the demo's own may change, and figures are to stay comparable
}


def prepared(folder: Path, other: Path | None, steps: int, changes: dict[str, dict[str, Any]] | None = None) -> RunFile:
    """The run, with its text and tokenizer in a folder; the tokenizer knows both texts."""
    content = load_run(DEFAULT_RUN).model_dump()
    local: dict[str, dict[str, Any]] = {
        "data": {"train": [{"path": "train.jsonl"}], "validation": [{"path": "validation.jsonl"}]},
        "optimizer": {"warmup_steps": max(1, steps // 10), "total_steps": steps},
    }
    for each in (CHANGES, local, changes or {}):
        for section, values in each.items():
            content[section] |= values
    run = parse_run(content, folder / "run.yaml")
    prepare_corpus(run, None, folder)
    sources = [*run.data.train, *([_source(other)] if other is not None else [])]
    make_tokenizer(run.model_copy(update={"data": run.data.model_copy(update={"train": sources})}))
    return run


def measured(
    run: RunFile, attacks: list[Attack], seeds: range, shares: list[int], other: Path | None, processes: int = 1
) -> dict[str, Any]:
    """The figures: by attack and share of the weight, and of peers with another text."""
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    foreign: list[dict[str, float]] = []
    names = [one.name for one in attacks]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:  # whose end ends the processes, too
        for rows, of_others in pool.imap(partial(of_seed, run, names, shares, other), seeds):
            for name, share, row in rows:
                found.setdefault(name, {}).setdefault(share, []).append(row)
            foreign += of_others
        pool.close()
        pool.join()
    attacked_rows = {name: {share: _medians(rows) for share, rows in by.items()} for name, by in found.items()}
    return {"attacks": attacked_rows, "other_text": _medians(foreign) if foreign else None, "seeds": len(seeds)}


def of_seed(
    run: RunFile, names: list[str], shares: list[int], other: Path | None, seed: int
) -> tuple[list[tuple[str, str, dict[str, float]]], list[dict[str, float]]]:
    """The figures of one order of the text, by attack and share, and of peers with another text."""
    torch.set_num_threads(1)
    course, console = Course(run, begun(run), HeldOut(run), seed), Console(stderr=True)
    found, foreign = [], []
    for percent in shares:
        share, peers = f"{percent} %", peers_of(run, percent / 100, SHARES[percent], seed)
        honest = [peer.name for peer in peers if not peer.lies]
        liars = [peer.name for peer in peers if peer.lies]
        clean, guarded = course.train(peers, NO_ATTACK, "off").loss, course.train(peers, NO_ATTACK, "enforce")
        for attack in (one for one in ATTACKS if one.name in names):
            attacked = guarded if attack is NO_ATTACK else course.train(peers, attack, "enforce")
            row = {"clean": clean, "guarded": guarded.loss, "attacked": attacked.loss}
            row |= {"above": attacked.loss - clean, "by_liars": attacked.loss - guarded.loss}
            if seed < UNDEFENDED:
                row["undefended"] = course.train(peers, attack, "off").loss
            row |= {"honest_lost": attacked.share_lost(honest), "liars_lost": attacked.share_lost(liars)}
            for group, users in (("honest", honest), ("liars", liars)):
                row[f"{group}_flagged"] = len(attacked.flagged.intersection(users))
                row[f"{group}_doubted"] = len(attacked.doubted.keys() & users)
                row[f"{group}_shut_out"] = len(attacked.shut_out.keys() & users)
            never = run.optimizer.total_steps
            row["doubted_after"] = statistics.median(attacked.doubted.get(liar, never) for liar in liars)
            found.append((attack.name, share, row))
            console.print(f"seed {seed}, {attack.name}, {share}: {_shown(row)}")
    if other is not None:
        foreign.append(with_other_text(run, course, other, seed))
        console.print(f"seed {seed}, another text: {_shown(foreign[-1])}")
    return found, foreign


def peers_of(run: RunFile, share: float, liars: int, seed: int) -> list[Peer]:
    """All 16."""
    honest, weight = weights_with(share, liars)
    samples = [(f"peer-{number:02}", own, False) for number, own in enumerate(honest)]
    samples += [(f"liar-{number:02}", weight, True) for number in range(liars)]
    return [_peer(run, run.data.train[0], *one, seed, number) for number, one in enumerate(samples)]


def with_other_text(run: RunFile, course: Course, other: Path, seed: int) -> dict[str, float]:
    """What scaling down takes from peers whose text is another, and from the rest, where nobody lies."""
    honest, weight = weights_with(0.06, 1)
    for own in FOREIGN:
        honest.remove(own)
    peers = [
        _peer(run, run.data.train[0], f"peer-{n:02}", own, False, seed, n) for n, own in enumerate([*honest, weight])
    ]
    foreign = [_peer(run, _source(other), f"foreign-{n}", own, False, seed, 50 + n) for n, own in enumerate(FOREIGN)]
    outcomes = [course.train([*peers, *foreign], NO_ATTACK, robust) for robust in ("enforce", "off")]
    lost = [outcomes[0].share_lost([one.name for one in group]) for group in (foreign, peers)]
    return {
        "clean": outcomes[1].loss,
        "attacked": outcomes[0].loss,
        "above": outcomes[0].loss - outcomes[1].loss,
        "foreign_lost": lost[0],
        "others_lost": lost[1],
        "flagged": len(outcomes[0].flagged),
        "doubted": len(outcomes[0].doubted),
        "shut_out": len(outcomes[0].shut_out),
    }


def _peer(run: RunFile, source: DataSource, name: str, samples: int, lies: bool, seed: int, number: int) -> Peer:
    return peer_with(run, source, name, samples, lies=lies, seed=1000 * seed + number)


def _source(text: Path) -> DataSource:
    return DataSource(path=str(text.absolute()))


def _medians(rows: list[dict[str, float]]) -> dict[str, float]:
    """Of losses and shares, with mean and standard error of differences; of people, all that were met in any seed."""
    found = {}
    for key in rows[0]:
        values = [row[key] for row in rows if key in row]
        is_count = key.endswith(("flagged", "doubted", "shut_out"))
        found[key] = sum(values) if is_count else round(statistics.median(values), 4)
        if key in DIFFERENCES:
            found[f"{key}_mean"] = round(statistics.mean(values), 4)
            found[f"{key}_error"] = round(statistics.stdev(values) / len(values) ** 0.5, 4) if len(values) > 1 else 0.0
    return found


def _shown(row: dict[str, float]) -> str:
    return ", ".join(f"{key} {value:.3f}" for key, value in row.items())
