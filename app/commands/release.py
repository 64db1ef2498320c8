"""The command line of `sahaj release`: release a checkpoint on the Hub by hand, or show what would be released."""

from pathlib import Path
from typing import Annotated

import typer

from app.startup import set_verbosity
from swarm.logging import logs


def release(
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="a checkpoint-N folder", show_default=False)],
    repo: Annotated[
        str, typer.Argument(metavar="REPO", help="repository of the model on the Hub, owner/name", show_default=False)
    ],
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="show what would be released, with message and model card, without contacting the Hub"
        ),
    ] = False,
    private: Annotated[bool, typer.Option("--private", help="make a new repository private")] = False,
    tag: Annotated[list[str], typer.Option(metavar="NAME", help="a name for this release; may be repeated")] = [],  # noqa: B006  (Typer reads the default; it is never changed)
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="ledger of the run; by default the one in the checkpoint's state folder, if any"
        ),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(
            metavar="LINK", help="the run's link, for the notebook; by default that of the state folder, if any"
        ),
    ] = None,
) -> None:
    """Release a checkpoint on the Hub, with a model card."""
    set_verbosity(verbose=False)
    from app.organizing.release_by_hand import describe, publish_by_hand, release_by_hand

    made = release_by_hand(checkpoint, repo, tag, ledger, link)
    if dry_run:
        typer.echo(describe(made, repo))
        return
    typer.echo(f"{made.message}, to {repo}")
    done = publish_by_hand(made, repo, private=private)
    logs.console_line(done)
    typer.echo(done)
