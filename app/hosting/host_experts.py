"""`sahaj host-experts URL`, from top to bottom: from a link to a peer that serves experts."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from app.hosting.console import HostConsole
from app.hosting.reachability import ReachabilityWatch
from app.installation import keep_installation
from app.join.address import is_loopback
from app.join.admission import Admitted, Say, ask_for_pass, is_unreachable
from app.join.coordinator_client import CoordinatorClient
from app.join.manifest import read_manifest
from app.join.peer_folder import free_folders
from app.join.problems import JoinProblem, ProblemKind, one_line
from app.join.volunteer import identify
from app.startup import loading_libraries
from swarm.language import _
from swarm.leaving import ask_to_leave
from swarm.logging.startup_timer import StartupTimer
from swarm.run_file import RunFile
from trainer.options import VolunteerOptions

if TYPE_CHECKING:  # these take seconds to import, and a wrong link should be reported at once
    from hivemind.dht import DHT

    from experts.host.settings import ExpertSettings

FOLDER = "-experts"  # ends the name of a host's folder: a trainer on the same machine has another one


@dataclass(frozen=True)
class HostOptions:
    """What `sahaj host-experts` can be told; every option has a default."""

    experts: int | None = None  # at most, copies included; absent: as many as fit
    name: str | None = None  # self-chosen, where the run is open
    allow_write_token: bool = False
    state: Path | None = None  # folder of identity, manifest and states
    verbose: bool = False
    chosen: VolunteerOptions = field(default_factory=VolunteerOptions)


@dataclass(frozen=True)
class Host:
    """A peer that has a pass, the run's files, and room for some experts."""

    admitted: Admitted
    settings: "ExpertSettings"
    capacity: int  # experts, copies included


def host_experts(url: str, options: HostOptions) -> None:
    """Host experts of the run behind a URL until it is over or the volunteer leaves.

    Raises:
        SahajError: one line about what stands in the way, and what to do next.
    """
    keep_installation()
    with HostConsole(Console()) as console:
        timer = StartupTimer(console.message) if options.verbose else StartupTimer()
        with CoordinatorClient(url) as client:
            host = _enter(client, options, timer, console.message)
        _serve(host, client.base, options, timer, console)


def _enter(client: CoordinatorClient, options: HostOptions, timer: StartupTimer, say: Say) -> Host:
    """Get a pass and the run's files, and find out how many experts this machine takes."""
    token, name = identify(client, options.name, timer, say, allow_write_token=options.allow_write_token)
    folders = free_folders(client.base, FOLDER) if options.state is None else [options.state]
    guest = ask_for_pass(client, token, name, folders, "host", timer, say)
    run = read_manifest(guest.answer.manifest, trusted=is_loopback(client.base), reads_text=False)
    if run.experts is None:
        raise JoinProblem(
            ProblemKind.NO_EXPERTS,
            _("{run}: this run has no experts to host; {command} trains in it").format(
                run=run.name, command=f"sahaj join {client.base}"
            ),
        )
    if is_unreachable(client.base, options.chosen):
        raise _not_reachable()
    with timer("checking this machine"):
        with loading_libraries():
            from app.hosting.capacity import capacity, measure, states_folder
            from experts.host.settings import settings_of

        settings = settings_of(run)
        assert settings is not None, "the run has experts"
        folder = states_folder(guest.run_folder(run), guest.answer.authority)
        room = capacity(settings, measure(guest.peer_folder, folder), options.experts)
    host = Host(guest.settle(run, timer), settings, room)
    for line in plan(host.admitted.run, settings, room, host.admitted.gate.own.user):
        say(one_line(line))
    return host


def plan(run: RunFile, settings: "ExpertSettings", capacity: int, user: str) -> list[str]:
    """The few lines that tell a volunteer what is going to happen."""
    from app.join.machine_checks import size
    from experts import grid
    from experts.host.state import longest_state

    purpose = run.description.strip()
    greeting = _("Hosting experts of {run}: {purpose}") if purpose else _("Hosting experts of {run}.")
    room = _(
        "Of {all} experts with {parameters} parameters each this machine takes {n} at most, copies included, with "
        "files of up to {size}."
    )
    file = longest_state(settings)
    return [
        greeting.format(run=run.name, purpose=purpose),
        room.format(
            all=f"{grid.size(settings.grid):,}",
            parameters=f"{settings.parameters:,}",
            n=f"{capacity:,}",
            size=size(capacity * file),
        ),
        _("Others see you as {user}. Your name, address and figures go to the other peers; your files do not.").format(
            user=user
        ),
        _("Leave at any moment with Ctrl-C: states are written first, and another host takes over."),
    ]


def _not_reachable() -> JoinProblem:
    return JoinProblem(
        ProblemKind.NOT_REACHABLE,
        _(
            "trainers cannot connect to this machine, so it cannot host experts; forward a port to it and name "
            "both, as --listen /ip4/0.0.0.0/tcp/31400 --announce /ip4/PUBLIC-ADDRESS/tcp/31400"
        ),
    )


def _serve(host: Host, url: str, options: HostOptions, timer: StartupTimer, console: HostConsole) -> None:
    with timer("loading the libraries of hosting"), loading_libraries():
        from app.hosting.serving import serve
    admitted = host.admitted
    renewal = admitted.renewal(console.message, work="hosting")
    network = options.chosen.network(admitted.initial_peers(), client_mode=False)

    def leave() -> None:
        console.message(
            _(
                "This machine seems to have moved behind a router, where trainers cannot reach it: this host leaves, "
                "and others take over."
            )
        )
        ask_to_leave()

    watch = ReachabilityWatch(partial(is_unreachable, url, options.chosen, when_offline=False), leave)

    def when_joined(dht: "DHT") -> None:
        renewal.start(dht)
        watch.start()

    try:
        serve(admitted, host.settings, host.capacity, network, when_joined, console)
    finally:
        renewal.stop()
        watch.stop()
    admitted.check_end(renewal)
    if watch.has_left:
        raise _not_reachable()
