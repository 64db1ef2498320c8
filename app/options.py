"""Options of commands; several have some of them in common."""

from pathlib import Path
from typing import Annotated

import typer

from swarm.countries import country_code
from swarm.logging import logs

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="the run file, as runs/demo.yaml", show_default=False)]
PeersOption = Annotated[
    list[str],
    typer.Option(
        "--initial-peers", metavar="ADDRESS", help="address of a peer of the run, to find the swarm by; may be repeated"
    ),
]
ListenOption = Annotated[
    list[str],
    typer.Option("--listen", metavar="ADDRESS", help="address to listen on, as /ip4/0.0.0.0/tcp/31337"),
]
AnnounceOption = Annotated[
    list[str],
    typer.Option("--announce", metavar="ADDRESS", help="address to announce to other peers, if it differs"),
]
RelayOption = Annotated[list[str], typer.Option(help="relay through which others can reach this peer")]
DeviceOption = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps; by default the best there is")]
MicroBatchOption = Annotated[int | None, typer.Option(min=1, help="samples at a time; found by trying if absent")]
CompileOption = Annotated[bool, typer.Option("--compile", help="use torch.compile")]
GraceOption = Annotated[
    float | None,
    typer.Option(min=0.0, help="seconds that SIGTERM leaves to finish a global step, as 100 on a spot instance"),
]
CountryOption = Annotated[
    str | None,
    typer.Option(metavar="XX", parser=country_code, help="your country, as BD; shown only as a count of people"),
]
UploadOption = Annotated[
    float | None, typer.Option("--max-upload", metavar="MBIT", min=1.0, help="what averaging may send, in Mbit/s")
]
DownloadOption = Annotated[
    float | None, typer.Option("--max-download", metavar="MBIT", min=1.0, help="what averaging may fetch, in Mbit/s")
]
VerboseOption = Annotated[bool, typer.Option("--verbose", help="show each step, and what hivemind and libp2p say")]
LogLevelOption = Annotated[
    logs.Level, typer.Option("--log-level", envvar="SAHAJ_LOG_LEVEL", help="from which level on messages are logged")
]
