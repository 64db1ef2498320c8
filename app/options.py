"""Options of commands; several have some of them in common."""

from pathlib import Path
from typing import Annotated

import typer

from swarm.countries import country_code
from swarm.logging import logs

RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="the run file, such as runs/demo.yaml", show_default=False)
]
LinkArgument = Annotated[
    str, typer.Argument(metavar="URL", help="the link that the organizer shares", show_default=False)
]
NameOption = Annotated[
    str | None,
    typer.Option(envvar="SAHAJ_NAME", help="a name of your own, where the run is open (then no token is used)"),
]
WriteTokenOption = Annotated[
    bool, typer.Option("--allow-write-token", help="accept a Hugging Face token that may change things on the Hub")
]
PeersOption = Annotated[
    list[str],
    typer.Option(
        "--initial-peers", metavar="ADDRESS", help="address of a peer of the run, to find the swarm by; may be repeated"
    ),
]
ListenOption = Annotated[
    list[str],
    typer.Option("--listen", metavar="ADDRESS", help="address to listen on, such as /ip4/0.0.0.0/tcp/31337"),
]
AnnounceOption = Annotated[
    list[str],
    typer.Option(
        "--announce", metavar="ADDRESS", help="address that other peers connect to, if it differs from --listen"
    ),
]
RelayOption = Annotated[
    list[str],
    typer.Option(metavar="ADDRESS", help="peer through which others can reach this one; may be repeated"),
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
    typer.Option("--max-upload", metavar="MBIT", min=1.0, help="the most that averaging may send, in Mbit/s"),
]
DownloadOption = Annotated[
    float | None,
    typer.Option("--max-download", metavar="MBIT", min=1.0, help="the most that averaging may fetch, in Mbit/s"),
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", help="also show the steps of the start, and messages of hivemind and libp2p")
]
LogLevelOption = Annotated[
    logs.Level, typer.Option("--log-level", envvar="SAHAJ_LOG_LEVEL", help="lowest level of messages in the log")
]
