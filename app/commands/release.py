"""The command line of `sahaj release`: release a checkpoint on the Hub by hand, or show what would be released."""

from pathlib import Path
from typing import Annotated

import typer

from app.startup import set_verbosity
from swarm.logging import logs

CheckpointArgument = Annotated[
    Path, typer.Argument(metavar="CHECKPOINT", help="a checkpoint-N folder", show_default=False)
]
RepoArgument = Annotated[
    str, typer.Argument(metavar="REPO", help="repository of the model on the Hub, owner/name", show_default=False)
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="show what would be released, with message and model card, without contacting the Hub"
    ),
]
PrivateOption = Annotated[bool, typer.Option("--private", help="make a new repository private")]
TagOption = Annotated[list[str], typer.Option("--tag", metavar="NAME", help="a name for this release; may be repeated")]
LedgerOption = Annotated[
    str | None,
    typer.Option(metavar="URL", help="ledger of the run; by default the one in the checkpoint's state folder, if any"),
]

LinkOption = Annotated[
    str | None,
    typer.Option(metavar="LINK", help="the run's link, for the notebook; by default that of the state folder, if any"),
]


def release(
    checkpoint: CheckpointArgument,
    repo: RepoArgument,
    dry_run: DryRunOption = False,
    private: PrivateOption = False,
    tag: TagOption = [],  # noqa: B006  (Typer reads the default; it is never changed)
    ledger: LedgerOption = None,
    link: LinkOption = None,
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
