"""What liars do to the held-out loss of a run, with and without `access.robust`, beside a run of honest peers.

    python -m benchmarks.poison [--other FILE] [--seeds 1] [--steps 40] [--only NAME] [--share PERCENT] [--json FILE]

16 peers compute real gradients of a small model of the demo's kind, from the demo's text; they weigh 8 to 512 samples
in a global step. Pieces, means and optimizer steps are made by the functions that make them in a run. Liars have 6, 15
or 25 % of the weight, two of them in the last case. `clean`: they compute and say what is true; `attacked`: with
`access.robust: enforce`; `undefended`: with `off`. Losses are in nats, medians of the seeds.

With `--other`, text in another language (JSONL), three of the honest peers have that text. What counts there is the
share of their weight that scaling down takes from them.
"""

import json
import statistics
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from app.demo.corpus import prepare_corpus
from app.demo.demo import DEFAULT_RUN
from benchmarks import command
from benchmarks.learning.learner import HeldOut, begun, make_tokenizer
from benchmarks.poison.attacks import ATTACKS, Attack
from benchmarks.poison.course import Course, Peer, batches_of, weights_with
from swarm.errors import SahajError
from swarm.files import write_file
from swarm.run_file import DataSource, RunFile, load_run, parse_run

SHARES = {6: 1, 15: 1, 25: 2}  # percent of the weight, and how many liars have it
FOREIGN = (32, 64, 128)  # samples of the honest peers whose text is another
CHANGES: dict[str, dict[str, Any]] = {  # of the demo's run: smaller, as there are many runs
    "model": {"hidden_size": 32, "embedding_size": 32, "intermediate_size": 128, "num_attention_heads": 2},
    "tokenizer": {"path": "tokenizer", "vocab_size": 1024, "max_documents": 500},
    "data": {"max_length": 16, "validation_samples": 512},
}


def main(
    other: Annotated[Path | None, typer.Option(help="Text in another language, as JSONL.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Orders of the text; losses are medians.")] = 1,
    steps: Annotated[int, typer.Option(min=2, help="Global steps of each run.")] = 40,
    only: Annotated[list[str] | None, typer.Option(help="Attacks by name; default: all.")] = None,
    share: Annotated[list[int] | None, typer.Option(help="Percent of the liars: 6, 15 or 25; default: all.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure, and print a table."""
    names = [one.name for one in ATTACKS]
    if unknown := set(only or ()) - set(names):
        raise SahajError(f"no attack is called {sorted(unknown)[0]!r}; there are {', '.join(names)}")
    if unknown_shares := set(share or ()) - set(SHARES):
        raise SahajError(f"liars weigh {', '.join(map(str, SHARES))} percent, not {min(unknown_shares)}")
    attacks = [one for one in ATTACKS if not only or one.name in only]
    with tempfile.TemporaryDirectory(prefix="sahaj-poison-") as folder:
        run = prepared(Path(folder), other, steps)
        figures = measured(run, attacks, range(seeds), [one for one in SHARES if not share or one in share], other)
    if json_file is not None:
        write_file(json_file, json.dumps(figures, indent=2) + "\n")
    Console().print(table(figures))


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
    run: RunFile, attacks: list[Attack], seeds: range, shares: list[int], other: Path | None
) -> dict[str, Any]:
    """The figures: by attack and share of the weight, and of peers with another text."""
    held_out, model, console = HeldOut(run), begun(run), Console(stderr=True)
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    foreign: list[dict[str, float]] = []

    for seed in seeds:
        course = Course(run, model, held_out, seed)
        for percent in shares:
            share, peers = f"{percent} %", peers_of(run, percent / 100, SHARES[percent], seed)
            honest = [peer.name for peer in peers if not peer.lies]
            liars = [peer.name for peer in peers if peer.lies]
            clean = course.train(peers, ATTACKS[0], "off").loss
            for attack in attacks:
                attacked, undefended = (course.train(peers, attack, robust) for robust in ("enforce", "off"))
                row = {"clean": clean, "attacked": attacked.loss, "undefended": undefended.loss}
                row |= {"honest_lost": attacked.share_lost(honest), "liars_lost": attacked.share_lost(liars)}
                row |= {
                    f"{group}_flagged": len(attacked.flagged.intersection(names))
                    for group, names in (("honest", honest), ("liars", liars))
                }
                found.setdefault(attack.name, {}).setdefault(share, []).append(row)
                console.print(f"seed {seed}, {attack.name}, {share}: {_shown(row)}")
        if other is not None:
            foreign.append(with_other_text(run, course, other, seed))
            console.print(f"seed {seed}, another text: {_shown(foreign[-1])}")
    attacked_rows = {name: {share: _medians(rows) for share, rows in by.items()} for name, by in found.items()}
    return {"attacks": attacked_rows, "other_text": _medians(foreign) if foreign else None, "seeds": len(seeds)}


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
    outcomes = [course.train([*peers, *foreign], ATTACKS[0], robust) for robust in ("enforce", "off")]
    lost = [outcomes[0].share_lost([one.name for one in group]) for group in (foreign, peers)]
    return {
        "clean": outcomes[1].loss,
        "attacked": outcomes[0].loss,
        "foreign_lost": lost[0],
        "others_lost": lost[1],
        "flagged": len(outcomes[0].flagged),
    }


def _peer(run: RunFile, source: DataSource, name: str, samples: int, lies: bool, seed: int, number: int) -> Peer:
    return Peer(name, lies, batches_of(run, source, samples, run.optimizer.total_steps, 1000 * seed + number))


def _source(text: Path) -> DataSource:
    return DataSource(path=str(text.absolute()))


def _medians(rows: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(statistics.median(row[key] for row in rows), 4) for key in rows[0]}


def _shown(row: dict[str, float]) -> str:
    return ", ".join(f"{key} {value:.3f}" for key, value in row.items())


def table(figures: dict[str, Any]) -> Table:
    """The figures for people."""
    shown = Table("attack", "weight", "clean", "attacked", "undefended", "honest lose", "liars lose", "flagged")
    for name, by_share in figures["attacks"].items():
        for share, row in by_share.items():
            losses = (f"{row[key]:.3f}" for key in ("clean", "attacked", "undefended"))
            shown.add_row(
                name,
                share,
                *losses,
                f"{row['honest_lost']:.1%}",
                f"{row['liars_lost']:.1%}",
                f"{row['liars_flagged']:.0f} liars, {row['honest_flagged']:.0f} others",
            )
    if (other := figures["other_text"]) is not None:
        losses = (f"{other[key]:.3f}" for key in ("clean", "attacked"))
        shown.add_row(
            "none, another text",
            "",
            *losses,
            "",
            f"{other['foreign_lost']:.1%} of theirs",
            "",
            f"{other['flagged']:.0f}",
        )
    return shown


if __name__ == "__main__":
    command.run(main)
