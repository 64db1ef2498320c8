"""Options that several commands have in common."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from swarm.logging import logs

CONNECTIONS = "Connections"  # a panel of the help


class TeamAction(str, Enum):
    """What a person can do about their team."""

    JOIN = "join"
    CREATE = "create"
    LEAVE = "leave"


RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="the run file, such as run.yaml", show_default=False)]
LinkArgument = Annotated[str, typer.Argument(metavar="LINK", help="the run's link", show_default=False)]
NameOption = Annotated[
    str | None,
    typer.Option(envvar="SAHAJ_NAME", help="a name of your own, where the run is open (then no token is used)"),
]
WriteTokenOption = Annotated[
    bool, typer.Option("--allow-write-token", help="accept a Hugging Face token that may change things on the Hub")
]
ListenOption = Annotated[
    list[str],
    typer.Option(
        metavar="ADDRESS",
        help="address to listen on, such as /ip4/0.0.0.0/tcp/31337",
        rich_help_panel=CONNECTIONS,
    ),
]
AnnounceOption = Annotated[
    list[str],
    typer.Option(
        metavar="ADDRESS",
        help="address that other peers connect to, if it differs from --listen",
        rich_help_panel=CONNECTIONS,
    ),
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", help="also show the steps of the start, and messages of hivemind and libp2p")
]
LogLevelOption = Annotated[
    logs.Level, typer.Option("--log-level", envvar="SAHAJ_LOG_LEVEL", help="lowest level of messages in the log")
]
