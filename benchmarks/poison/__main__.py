"""What liars do to the held-out loss of a run, with and without `access.robust`, beside a run of honest peers.

    python -m benchmarks.poison [--other FILE] [--seeds 1] [--steps 160] [--only NAME] [--share PERCENT]
                               [--processes 1] [--json FILE]

16 peers compute real gradients of a small model of the demo's kind, from the demo's text; they weigh 8 to 512 samples
in a global step. Pieces, means and optimizer steps are made by the functions that make them in a run. Liars have 6, 15
or 25 % of the weight, two of them in the last case. `clean`: they compute and say what is true; `guarded`: the same
with `access.robust: enforce`, which counts no user with more than 15 % of the weight; `attacked`: they lie, with
`enforce` and the coordinator's audits; `undefended`: with `off`, in the first two seeds alone. Losses are in nats,
medians of the seeds. So are `above`, from the `clean` of the same seed to `attacked`, and `by_liars`, from its
`guarded`; both have a mean and its standard error as well. Those that were flagged, on probation or shut out are
counted over all seeds. `doubted_after`: the global steps until a liar was on probation, median; all, if it never was.

With `--other`, text in another language (JSONL), three of the honest peers have that text. What counts there is the
share of their weight that scaling down and probation take from them.
"""

import json
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.poison.attacks import ATTACKS
from benchmarks.poison.measuring import DIFFERENCES, SHARES, measured, prepared
from benchmarks.support import command
from swarm.errors import SahajError
from swarm.files import write_file


def main(
    other: Annotated[Path | None, typer.Option(help="Text in another language, as JSONL.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Orders of the text; losses are medians.")] = 1,
    steps: Annotated[int, typer.Option(min=2, help="Global steps of each run.")] = 160,
    processes: Annotated[int, typer.Option(min=1, help="Seeds at a time.")] = 1,
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
        shares = [one for one in SHARES if not share or one in share]
        figures = measured(run, attacks, range(seeds), shares, other, processes)
    if json_file is not None:
        write_file(json_file, json.dumps(figures, indent=2) + "\n")
    Console().print(table(figures))


def table(figures: dict[str, Any]) -> Table:
    """The figures for people."""
    losses_of = ("clean", "guarded", "attacked", "above", "by_liars", "undefended")
    shown = Table("attack", "weight", *losses_of, "honest lose", "liars lose", "flagged", "on probation", "shut out")
    for name, by_share in figures["attacks"].items():
        for share, row in by_share.items():
            losses = [_shown(row, key) for key in losses_of]
            shown.add_row(
                name,
                share,
                *losses,
                f"{row['honest_lost']:.1%}",
                f"{row['liars_lost']:.1%}",
                f"{row['liars_flagged']:.0f} liars, {row['honest_flagged']:.0f} others",
                f"{row['liars_doubted']:.0f} liars (after {row['doubted_after']:.0f} steps), "
                f"{row['honest_doubted']:.0f} others",
                f"{row['liars_shut_out']:.0f} liars, {row['honest_shut_out']:.0f} others",
            )
    if (other := figures["other_text"]) is not None:
        losses = [f"{other[key]:.3f}" if key in other else "" for key in losses_of[:-1]]
        shown.add_row(
            "none, another text",
            "",
            *losses,
            "",
            f"{other['foreign_lost']:.1%} of theirs",
            "",
            f"{other['flagged']:.0f}",
            f"{other['doubted']:.0f}",
            f"{other['shut_out']:.0f}",
        )
    return shown


def _shown(row: dict[str, float], key: str) -> str:
    median = f"{row[key]:.3f}"
    return f"{row[f'{key}_mean']:.3f} ± {row[f'{key}_error']:.3f}, {median}" if key in DIFFERENCES else median


if __name__ == "__main__":
    command.run(main)
