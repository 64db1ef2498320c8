"""The command line of `sahaj leave`."""

from typing import Annotated

import typer

from app.startup import set_verbosity


def leave(
    url: Annotated[
        str | None,
        typer.Argument(metavar="LINK", help="the run's link", show_default=False),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="remove what all runs and notebooks have put on this machine")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """Remove what joining has put on this machine: identities, logs, and the program that join.sh installed."""
    set_verbosity(verbose=False)
    from app.join.address import coordinator_url
    from app.leave import leave as leave_run
    from app.service.services import refuse_to_leave
    from swarm.errors import SahajError
    from swarm.language import _

    if (url is None) != everything:
        raise SahajError(_("give either the link of a run, or --all"))
    link = None if url is None else coordinator_url(url)
    refuse_to_leave(link)
    leave_run(link, lambda question: yes or _confirmed(question), typer.echo)


def _confirmed(question: str) -> bool:
    try:
        return typer.confirm(question)
    except typer.Abort:  # there is no terminal, or Ctrl-C
        typer.echo("")
        return False
