"""The command line of `sahaj join`."""

import contextlib
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from app.options import (
    CONNECTIONS,
    AnnounceOption,
    LinkArgument,
    ListenOption,
    LogLevelOption,
    NameOption,
    VerboseOption,
    WriteTokenOption,
)
from app.startup import loading_libraries, start_peer
from swarm.countries import country_code
from swarm.logging import logs
from trainer.pausing.wishes import IDLE_AFTER, When, Wishes
from trainer.pausing.wishes import when as parse_when

CONSIDERATE = "When to train, and how much of this machine to take"  # a panel of the help


class Priority(str, Enum):
    """Of the trainer among the programs of its machine."""

    LOW = "low"
    NORMAL = "normal"


def join(
    url: LinkArgument,
    name: NameOption = None,
    team: Annotated[str | None, typer.Option(help="a team of the run to be in from now on", show_default=False)] = None,
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
    relay: Annotated[
        list[str],
        typer.Option(
            metavar="ADDRESS",
            help="peer through which others can reach this one; may be repeated",
            rich_help_panel=CONNECTIONS,
        ),
    ] = [],  # noqa: B006
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps; by default the best there is")] = None,
    micro_batch: Annotated[
        int | None, typer.Option(min=1, help="samples at a time; by default the program tries sizes")
    ] = None,
    compile: Annotated[bool, typer.Option("--compile", help="use torch.compile")] = False,
    country: Annotated[
        str | None,
        typer.Option(
            metavar="XX",
            parser=country_code,
            help="your country, such as BD; others see only how many people a country has",
        ),
    ] = None,
    max_upload: Annotated[
        float | None,
        typer.Option(
            metavar="MBIT",
            min=1.0,
            help="the most that averaging may send, in Mbit/s",
            rich_help_panel=CONNECTIONS,
        ),
    ] = None,
    max_download: Annotated[
        float | None,
        typer.Option(
            metavar="MBIT",
            min=1.0,
            help="the most that averaging may fetch, in Mbit/s",
            rich_help_panel=CONNECTIONS,
        ),
    ] = None,
    grace: Annotated[
        float | None,
        typer.Option(min=0.0, help="seconds to finish a global step after SIGTERM; with --spot, what the cloud allows"),
    ] = None,
    when: Annotated[
        When,
        typer.Option(
            metavar="WHEN",
            parser=parse_when,
            help="always; idle: while nobody uses this machine; night; or hours, such as 22:00-07:00. "
            "idle,night is either of them, idle+night both at once",
            rich_help_panel=CONSIDERATE,
        ),
    ] = "always",  # type: ignore[assignment]  # Typer parses it
    idle_after: Annotated[
        float,
        typer.Option(
            metavar="MINUTES",
            min=0.1,
            help="minutes without keyboard or mouse input before the machine counts as idle",
            rich_help_panel=CONSIDERATE,
        ),
    ] = IDLE_AFTER,
    on_battery: Annotated[
        bool,
        typer.Option(
            "--on-battery",
            help="also train on battery power (otherwise training pauses)",
            rich_help_panel=CONSIDERATE,
        ),
    ] = False,
    on_metered: Annotated[
        bool,
        typer.Option(
            "--on-metered",
            help="also train on a metered connection (otherwise training pauses)",
            rich_help_panel=CONSIDERATE,
        ),
    ] = False,
    max_traffic: Annotated[
        float | None,
        typer.Option(
            metavar="GB", min=0.01, help="the most that averaging may send and fetch a day", rich_help_panel=CONSIDERATE
        ),
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option(min=1, help="cores of the processor to use; by default all", rich_help_panel=CONSIDERATE),
    ] = None,
    priority: Annotated[
        Priority,
        typer.Option(help="low: give other programs priority for processor and disk", rich_help_panel=CONSIDERATE),
    ] = Priority.LOW,
    gpu_share: Annotated[
        float,
        typer.Option(
            metavar="PERCENT",
            min=1.0,
            max=100.0,
            help="share of the time that the GPU may compute, in percent (without a GPU: the processor)",
            rich_help_panel=CONSIDERATE,
        ),
    ] = 100.0,
    max_temperature: Annotated[
        float | None,
        typer.Option(
            metavar="CELSIUS",
            min=30.0,
            help="keep an NVIDIA GPU below this temperature by computing less of the time",
            rich_help_panel=CONSIDERATE,
        ),
    ] = None,
    max_power: Annotated[
        float | None,
        typer.Option(
            metavar="WATTS",
            min=10.0,
            help="keep an NVIDIA GPU below this power by computing less of the time",
            rich_help_panel=CONSIDERATE,
        ),
    ] = None,
    pause_file: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="pause while this file exists (it may be empty)", rich_help_panel=CONSIDERATE
        ),
    ] = None,
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
    with loading_libraries():
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
        chosen=chosen,
        wishes=wishes,
        has_low_priority=priority is Priority.LOW,
        pause_file=pause_file,
    )
    with contextlib.nullcontext() if notebook else referring_to_doctor(url):  # a notebook has no command line
        join_run(url, options)
