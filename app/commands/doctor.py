"""The command line of `sahaj doctor`."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from app.startup import PROCESS_STARTED, set_verbosity
from swarm.language import SOURCE, VARIABLE, _, speak


def doctor(
    url: Annotated[
        str | None,
        typer.Argument(metavar="LINK", help="the run's link; this machine alone if absent", show_default=False),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print JSON, to show to somebody who helps")] = False,
    state: Annotated[
        Path | None, typer.Option(help="folder of the peer, if it was chosen with --state when joining")
    ] = None,
    patience: Annotated[float, typer.Option(metavar="SECONDS", min=1.0, help="how long it may take")] = 20.0,
) -> None:
    """Find out why a machine cannot join a run or does not connect, and what to do about it."""
    set_verbosity(verbose=False)
    if json:  # a helper may read another language
        os.environ[VARIABLE] = SOURCE
    from rich.console import Console

    from app.doctor.examination import results
    from app.doctor.observing import RunSeen, observe
    from app.doctor.report import as_json, is_faulty, show
    from swarm.version import program_version

    console = Console()
    with Console(stderr=True).status(_("checking, for {n} s at most").format(n=f"{patience:.0f}")):
        seen = observe(url, state, max(patience / 2, patience - (time.time() - PROCESS_STARTED)))
    if isinstance(seen.run, RunSeen) and seen.run.description is not None:
        speak(seen.run.description.language)
    found = results(seen, time.time())
    if json:
        typer.echo(as_json(found, program_version()))
    else:
        show(found, console)
    raise typer.Exit(1 if is_faulty(found) else 0)
