"""The command line of `sahaj join`."""

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from app import startup
from app.options import (
    CONNECTIONS,
    AnnounceOption,
    CompileOption,
    CoresOption,
    CountryOption,
    DeviceOption,
    DownloadOption,
    GraceOption,
    IdleAfterOption,
    LinkArgument,
    ListenOption,
    LogLevelOption,
    MaxPowerOption,
    MaxTemperatureOption,
    MaxTrafficOption,
    MicroBatchOption,
    NameOption,
    OnBatteryOption,
    OnMeteredOption,
    PauseFileOption,
    Priority,
    PriorityOption,
    RelayOption,
    ShareOption,
    TeamOption,
    UploadOption,
    VerboseOption,
    WhenOption,
    WriteTokenOption,
)
from app.startup import start_peer
from swarm.logging import logs
from trainer.pausing.wishes import IDLE_AFTER, Wishes


def join(
    url: LinkArgument,
    name: NameOption = None,
    team: TeamOption = None,
    allow_write_token: WriteTokenOption = False,
    data: Annotated[Path | None, typer.Option(help="text of this machine to train on, instead of the run's")] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            help="folder of this peer's identity and the run's files; by default one per link in ~/.cache/sahaj"
        ),
    ] = None,
    client_mode: Annotated[
        bool | None,
        typer.Option(
            "--client-mode/--no-client-mode",
            help="accept no connections; by default the program finds out",
            rich_help_panel=CONNECTIONS,
        ),
    ] = None,
    listen: ListenOption = [],  # noqa: B006  (Typer reads the default; it is never changed)
    announce: AnnounceOption = [],  # noqa: B006
    relay: RelayOption = [],  # noqa: B006
    device: DeviceOption = None,
    micro_batch: MicroBatchOption = None,
    compile: CompileOption = False,
    country: CountryOption = None,
    max_upload: UploadOption = None,
    max_download: DownloadOption = None,
    grace: GraceOption = None,
    when: WhenOption = "always",  # type: ignore[assignment]  # Typer parses it
    idle_after: IdleAfterOption = IDLE_AFTER,
    on_battery: OnBatteryOption = False,
    on_metered: OnMeteredOption = False,
    max_traffic: MaxTrafficOption = None,
    cores: CoresOption = None,
    priority: PriorityOption = Priority.LOW,
    gpu_share: ShareOption = 100.0,
    max_temperature: MaxTemperatureOption = None,
    max_power: MaxPowerOption = None,
    pause_file: PauseFileOption = None,
    spot: Annotated[
        bool,
        typer.Option("--spot", help="leave in time when the cloud takes this spot instance away"),
    ] = False,
    notebook: Annotated[
        bool, typer.Option("--notebook", hidden=True, help="show pages for a notebook to display, one JSON line each")
    ] = False,
    service: Annotated[
        bool, typer.Option("--service", hidden=True, help="print a line a minute, for the log of a service")
    ] = False,
    verbose: VerboseOption = False,
    log_level: LogLevelOption = logs.Level.INFO,
) -> None:
    """Join the run behind a link, and train until it is done or you leave (Ctrl-C)."""
    start_peer(verbose=verbose, log_level=log_level)
    with startup.loading_libraries():
        from app.join.join import JoinOptions
        from app.join.join import join as join_run
        from app.join.problems import referring_to_doctor
        from trainer.options import VolunteerOptions

    chosen = VolunteerOptions(
        client_mode=client_mode,
        listen=tuple(listen),
        announce=tuple(announce),
        relays=tuple(relay),
        device=device,
        micro_batch=micro_batch,
        compile=compile,
        country=country,
        max_upload=max_upload,
        max_download=max_download,
        grace=grace,
        cores=cores,
    )
    wishes = Wishes(
        when=when,
        idle_after=idle_after,
        on_battery=on_battery,
        on_metered=on_metered,
        max_traffic=max_traffic,
        share=gpu_share / 100,
        max_temperature=max_temperature,
        max_power=max_power,
    )
    options = JoinOptions(
        name=name,
        team=team,
        allow_write_token=allow_write_token,
        data=data,
        state=state,
        spot=spot,
        notebook=notebook,
        service=service,
        verbose=verbose,
        process_started=startup.PROCESS_STARTED,
        chosen=chosen,
        wishes=wishes,
        has_low_priority=priority is Priority.LOW,
        pause_file=pause_file,
    )
    with contextlib.nullcontext() if notebook else referring_to_doctor(url):  # a notebook has no command line
        join_run(url, options)
