"""The command line of `sahaj host-experts`."""

from pathlib import Path
from typing import Annotated

import typer

from app.options import (
    AnnounceOption,
    LinkArgument,
    ListenOption,
    LogLevelOption,
    NameOption,
    VerboseOption,
    WriteTokenOption,
)
from app.startup import loading_libraries, start_peer
from swarm.logging import logs


def host_experts(
    url: LinkArgument,
    experts: Annotated[
        int | None,
        typer.Option(min=1, max=512, help="host at most this many experts, copies included; by default as many as fit"),
    ] = None,
    name: NameOption = None,
    allow_write_token: WriteTokenOption = False,
    state: Annotated[
        Path | None,
        typer.Option(help="folder of this peer's identity and of states; by default one per link in ~/.cache/sahaj"),
    ] = None,
    listen: ListenOption = [],  # noqa: B006  (Typer reads the default; it is never changed)
    announce: AnnounceOption = [],  # noqa: B006
    verbose: VerboseOption = False,
    log_level: LogLevelOption = logs.Level.INFO,
) -> None:
    """Host experts of the run behind a link for its trainers, until it is over or you leave (Ctrl-C)."""
    start_peer(verbose=verbose, log_level=log_level)
    with loading_libraries():
        from app.hosting.host_experts import HostOptions
        from app.hosting.host_experts import host_experts as host
        from app.join.problems import referring_to_doctor
        from trainer.options import VolunteerOptions

    options = HostOptions(
        experts=experts,
        name=name,
        allow_write_token=allow_write_token,
        state=state,
        verbose=verbose,
        chosen=VolunteerOptions(listen=tuple(listen), announce=tuple(announce)),
    )
    with referring_to_doctor(url):
        host(url, options)
