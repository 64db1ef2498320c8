"""`sahaj notebook` writes the file by which volunteers join from Colab or Kaggle."""

from pathlib import Path
from typing import Annotated

import typer

from app.startup import set_verbosity


def notebook(
    url: Annotated[
        str | None,
        typer.Argument(metavar="LINK", help="the run's link; the notebook asks if absent", show_default=False),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="where to write it")] = Path("join.ipynb"),
) -> None:
    """Write a notebook by which others join a run from Colab or Kaggle."""
    set_verbosity(verbose=False)
    from app.join.address import is_loopback
    from app.join.coordinator_client import CoordinatorClient
    from coordinator.notebook.build import notebook_for
    from coordinator.notebook.wheel import this_program
    from swarm.files import write_file

    link = ""
    if url is None:
        content = notebook_for("", this_program())
    else:
        with CoordinatorClient(url, tolerance=float("inf")) as client:
            # of the coordinator, as the program that it installs is the run's and not this one
            content, link = client.notebook(), client.base
    write_file(out, content)
    joins = f"joins {link}" if link else "asks for a run's link"
    typer.echo(f"Wrote {out}, which {joins}. Colab and Kaggle open it from GitHub or from a Hub repository.")
    if link and is_loopback(link):
        typer.echo("This link works on this machine only; others need one that they can reach.")
