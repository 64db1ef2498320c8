"""The command lines of `sahaj me` and `sahaj team`."""

from pathlib import Path
from typing import Annotated

import typer

from app.options import LinkArgument, TeamAction, WriteTokenOption
from app.startup import set_verbosity

StateOption = Annotated[
    Path | None, typer.Option(help="folder of the peer that asks, if not the one that joining uses by default")
]


def me(
    url: LinkArgument,
    state: StateOption = None,
    allow_write_token: WriteTokenOption = False,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="first make all earlier links to the page stop working")
    ] = False,
) -> None:
    """Show what you have given to a run, and the link to your own page: pause your machines from anywhere."""
    set_verbosity(verbose=False)
    from app.me.me import me as tell

    tell(url, typer.echo, state=state, allow_write_token=allow_write_token, revoke=revoke)


def team(
    url: LinkArgument,
    action: Annotated[
        TeamAction | None, typer.Argument(help="by default it shows the teams and yours", show_default=False)
    ] = None,
    name: Annotated[str | None, typer.Argument(help="of the team to join or create", show_default=False)] = None,
    state: StateOption = None,
    allow_write_token: WriteTokenOption = False,
) -> None:
    """Show a run's teams and yours; join, create or leave one."""
    set_verbosity(verbose=False)
    from app.me.team import team as tell

    tell(url, action, name, typer.echo, state=state, allow_write_token=allow_write_token)
