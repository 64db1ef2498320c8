"""Options of commands; several have some of them in common."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from swarm.countries import country_code
from swarm.logging import logs
from trainer.pausing.wishes import When, when

CONNECTIONS = "Connections"  # panels of the help
CONSIDERATE = "When to train, and how much of this machine to take"


class TeamAction(str, Enum):
    """What a person can do about their team."""

    JOIN = "join"
    CREATE = "create"
    LEAVE = "leave"


class Priority(str, Enum):
    """Of the trainer among the programs of its machine."""

    LOW = "low"
    NORMAL = "normal"


RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="the run file, such as run.yaml", show_default=False)]
LinkArgument = Annotated[str, typer.Argument(metavar="LINK", help="the run's link", show_default=False)]
NameOption = Annotated[
    str | None,
    typer.Option(envvar="SAHAJ_NAME", help="a name of your own, where the run is open (then no token is used)"),
]
WriteTokenOption = Annotated[
    bool, typer.Option("--allow-write-token", help="accept a Hugging Face token that may change things on the Hub")
]
TeamOption = Annotated[str | None, typer.Option(help="a team of the run to be in from now on", show_default=False)]
PeersOption = Annotated[
    list[str],
    typer.Option(
        "--initial-peers", metavar="ADDRESS", help="address of a peer of the run, to find the swarm by; may be repeated"
    ),
]
ListenOption = Annotated[
    list[str],
    typer.Option(
        "--listen",
        metavar="ADDRESS",
        help="address to listen on, such as /ip4/0.0.0.0/tcp/31337",
        rich_help_panel=CONNECTIONS,
    ),
]
AnnounceOption = Annotated[
    list[str],
    typer.Option(
        "--announce",
        metavar="ADDRESS",
        help="address that other peers connect to, if it differs from --listen",
        rich_help_panel=CONNECTIONS,
    ),
]
RelayOption = Annotated[
    list[str],
    typer.Option(
        metavar="ADDRESS",
        help="peer through which others can reach this one; may be repeated",
        rich_help_panel=CONNECTIONS,
    ),
]
DeviceOption = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps; by default the best there is")]
MicroBatchOption = Annotated[
    int | None, typer.Option(min=1, help="samples at a time; by default the program tries sizes")
]
CompileOption = Annotated[bool, typer.Option("--compile", help="use torch.compile")]
GraceOption = Annotated[
    float | None,
    typer.Option(min=0.0, help="seconds to finish a global step after SIGTERM; with --spot, what the cloud allows"),
]
CountryOption = Annotated[
    str | None,
    typer.Option(
        metavar="XX",
        parser=country_code,
        help="your country, such as BD; others see only how many people a country has",
    ),
]
UploadOption = Annotated[
    float | None,
    typer.Option(
        "--max-upload",
        metavar="MBIT",
        min=1.0,
        help="the most that averaging may send, in Mbit/s",
        rich_help_panel=CONNECTIONS,
    ),
]
DownloadOption = Annotated[
    float | None,
    typer.Option(
        "--max-download",
        metavar="MBIT",
        min=1.0,
        help="the most that averaging may fetch, in Mbit/s",
        rich_help_panel=CONNECTIONS,
    ),
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", help="also show the steps of the start, and messages of hivemind and libp2p")
]
LogLevelOption = Annotated[
    logs.Level, typer.Option("--log-level", envvar="SAHAJ_LOG_LEVEL", help="lowest level of messages in the log")
]

WhenOption = Annotated[
    When,
    typer.Option(
        "--when",
        metavar="WHEN",
        parser=when,
        help="always; idle: while nobody uses this machine; night; or hours, such as 22:00-07:00. "
        "idle,night is either of them, idle+night both at once",
        rich_help_panel=CONSIDERATE,
    ),
]
IdleAfterOption = Annotated[
    float,
    typer.Option(
        metavar="MINUTES",
        min=0.1,
        help="minutes without keyboard or mouse input before the machine counts as idle",
        rich_help_panel=CONSIDERATE,
    ),
]
OnBatteryOption = Annotated[
    bool,
    typer.Option(
        "--on-battery",
        help="also train on battery power (otherwise training pauses)",
        rich_help_panel=CONSIDERATE,
    ),
]
OnMeteredOption = Annotated[
    bool,
    typer.Option(
        "--on-metered",
        help="also train on a metered connection (otherwise training pauses)",
        rich_help_panel=CONSIDERATE,
    ),
]
MaxTrafficOption = Annotated[
    float | None,
    typer.Option(
        metavar="GB", min=0.01, help="the most that averaging may send and fetch a day", rich_help_panel=CONSIDERATE
    ),
]
CoresOption = Annotated[
    int | None, typer.Option(min=1, help="cores of the processor to use; by default all", rich_help_panel=CONSIDERATE)
]
PriorityOption = Annotated[
    Priority,
    typer.Option(help="low: give other programs priority for processor and disk", rich_help_panel=CONSIDERATE),
]
ShareOption = Annotated[
    float,
    typer.Option(
        "--gpu-share",
        metavar="PERCENT",
        min=1.0,
        max=100.0,
        help="share of the time that the GPU may compute, in percent (without a GPU: the processor)",
        rich_help_panel=CONSIDERATE,
    ),
]
MaxTemperatureOption = Annotated[
    float | None,
    typer.Option(
        metavar="CELSIUS",
        min=30.0,
        help="keep an NVIDIA GPU below this temperature by computing less of the time",
        rich_help_panel=CONSIDERATE,
    ),
]
MaxPowerOption = Annotated[
    float | None,
    typer.Option(
        metavar="WATTS",
        min=10.0,
        help="keep an NVIDIA GPU below this power by computing less of the time",
        rich_help_panel=CONSIDERATE,
    ),
]
PauseFileOption = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help="pause while this file exists (it may be empty)", rich_help_panel=CONSIDERATE),
]
