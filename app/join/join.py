"""`sahaj join URL`, from top to bottom: from a link to a training peer."""

import contextlib
import itertools
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from app import startup
from app.installation import keep_installation
from app.join import machine_checks
from app.join.address import is_loopback
from app.join.admission import Admitted, Say, ask_for_pass, is_unreachable, team_line
from app.join.background import page_orders
from app.join.background.page_orders import PageOrders
from app.join.background.spot_notice import SpotNotice
from app.join.coordinator_client import CoordinatorClient
from app.join.hub_token import HubToken, check_token, find_token
from app.join.manifest import check_own_text, read_manifest
from app.join.peer_folder import free_folders, in_use, peer_folders
from app.join.problems import PASSING, JoinProblem, one_line
from app.join.volunteer import Volunteer, identify
from swarm.language import _
from swarm.leaving import GRACE
from swarm.logging.startup_timer import StartupTimer
from trainer.console.moments import Milestones
from trainer.console.notebook import NotebookView
from trainer.console.view import ConsoleView
from trainer.options import TrainerOptions, VolunteerOptions
from trainer.pausing import long_pauses
from trainer.pausing.processor import have_low_priority, use_cores
from trainer.pausing.watch import PauseWatch
from trainer.pausing.wishes import Wishes

if TYPE_CHECKING:  # it takes seconds to import, and a wrong link should be reported at once
    from hivemind.dht import DHT

SERVICE_TELLS_EVERY = 60.0  # seconds
TRY_EVERY = 30.0  # seconds between two tries after a pause, at least


@dataclass(frozen=True)
class JoinOptions:
    """What `sahaj join` can be told; every option has a default."""

    name: str | None = None  # self-chosen, where the run is open
    team: str | None = None  # to be in
    allow_write_token: bool = False
    data: Path | None = None  # text of this machine, in place of the run's
    state: Path | None = None  # folder of identity and manifest
    own_folder: Path | None = None  # in which this peer was before a long pause
    spot: bool = False  # leave when Amazon gives notice
    notebook: bool = False  # show pages for a notebook to display
    service: bool = False  # print less, for weeks
    verbose: bool = False
    chosen: VolunteerOptions = field(default_factory=VolunteerOptions)
    wishes: Wishes = field(default_factory=Wishes)
    has_low_priority: bool = False  # other programs come first
    pause_file: Path | None = None  # that is there while the volunteer wants a pause


def join(url: str, options: JoinOptions) -> None:
    """Join the run behind a URL and train until it is done or the volunteer leaves.

    For a long pause this peer leaves the run, and the process begins again from nothing: a trainer that pauses takes
    some 50 MB of memory, and none of the line.

    Raises:
        SahajError: one line about what stands in the way, and what to do next.
    """
    keep_installation()
    if options.has_low_priority:
        have_low_priority()
    if options.chosen.cores is not None:
        use_cores(options.chosen.cores)
    if came_back := (own := long_pauses.came_from_pause()) is not None:
        options = replace(options, team=None, own_folder=own)  # the team may have been left since
    with _view(options) as view:
        timer = StartupTimer(view.message) if options.verbose else StartupTimer()
        with CoordinatorClient(url) as client:
            # a link, a name, a token or a text that cannot be used: said before hours of waiting
            volunteer = None if came_back else _identify(client, options, timer, view.message)
            if not came_back and options.state is None and any(map(in_use, peer_folders(client.base))):
                view.message(
                    _(
                        "Another session of this run is already running on this machine; this one joins as a further "
                        "peer. To have one only, press Ctrl-C."
                    )
                )
            folder = next(_folders(options, client.base))  # by the link to which the coordinator has redirected
            page = PageOrders(client.base, folder / page_orders.FILE_NAME)
            watch = long_pauses.watch_for(
                options.wishes, folder, options.pause_file, lambda: page.is_paused, is_first=not came_back
            )
            with page.asking():
                waited = long_pauses.wait_until_over(watch, view.message)
            if waited and volunteer is not None and (token := volunteer[0]) is not None:
                volunteer = _renewed(token, options), None
            admitted, client_mode = _enter_patiently(
                client, options, volunteer, timer, view.message, retries=came_back or waited
            )
        pausing = _train(admitted, client_mode, options, timer, view, watch, page)
    if pausing:
        long_pauses.begin_again(admitted.identity.path.parent)


def _renewed(token: HubToken, options: JoinOptions) -> HubToken:
    """After hours a saved login may have been renewed: its token, if it is as good as the one verified before."""
    with contextlib.suppress(JoinProblem):
        found = find_token()
        if found is not None and found != token:
            check_token(found, allow_write=options.allow_write_token, notebook=options.notebook)
            return found
    return token


def _folders(options: JoinOptions, url: str) -> Iterator[Path]:
    """Where this peer may be, the best first."""
    if options.state is not None:
        return iter([options.state])
    return itertools.chain([] if options.own_folder is None else [options.own_folder], free_folders(url))


def _view(options: JoinOptions) -> ConsoleView:
    if options.notebook:
        return NotebookView()
    if options.service:
        return ConsoleView(Console(force_terminal=False), plain_every=SERVICE_TELLS_EVERY)
    return ConsoleView(Console(force_terminal=sys.stdout.isatty()))  # FORCE_COLOR is about colours, not about a log


def _identify(client: CoordinatorClient, options: JoinOptions, timer: StartupTimer, say: Say) -> Volunteer:
    if options.data is not None:
        check_own_text(options.data)
    return identify(
        client,
        options.name,
        timer,
        say,
        allow_write_token=options.allow_write_token,
        notebook=options.notebook,
    )


def _enter_patiently(
    client: CoordinatorClient,
    options: JoinOptions,
    volunteer: Volunteer | None,
    timer: StartupTimer,
    say: Say,
    *,
    retries: bool,
) -> tuple[Admitted, bool]:
    """Enter the run; with `retries`, try again while a problem may pass: after a pause no person does so."""
    said = ""
    while True:
        try:
            volunteer = volunteer or _identify(client, options, timer, say)
            return _enter(client, options, volunteer, timer, say)
        except JoinProblem as problem:
            if not retries or problem.kind not in PASSING:
                raise
            pause = max(TRY_EVERY, problem.retry_after)
            if (told := one_line(str(problem))) != said:
                say(_("{problem}. The program tries again every {n} s.").format(problem=told, n=f"{pause:.0f}"))
            said = told
            time.sleep(pause)


def _enter(
    client: CoordinatorClient, options: JoinOptions, volunteer: Volunteer, timer: StartupTimer, say: Say
) -> tuple[Admitted, bool]:
    """Get a pass and the run's files, and check that this machine fits the run; also whether it needs client mode."""
    token, name = volunteer
    folders = _folders(options, client.base)
    guest = ask_for_pass(client, token, name, folders, "trainer", timer, say, team=options.team)
    run = read_manifest(guest.answer.manifest, data=options.data, trusted=is_loopback(client.base))
    with timer("checking this machine"):
        found = list(machine_checks.findings(run, machine_checks.measure(guest.peer_folder, options.chosen.device)))
        machine_checks.refuse_if_fatal(found)
        client_mode = is_unreachable(client.base, options.chosen)
    admitted = guest.settle(run, timer)
    own = admitted.gate.own
    for line in machine_checks.plan(run, own.user, verified=own.verified, client_mode=client_mode):
        say(one_line(line))
    if options.team:
        say(one_line(team_line(options.team, guest.answer)))
    for finding in found:
        say(finding.message)
    return admitted, client_mode


def _train(
    admitted: Admitted,
    client_mode: bool,
    options: JoinOptions,
    timer: StartupTimer,
    view: ConsoleView,
    watch: PauseWatch,
    page: PageOrders,
) -> bool:
    """Returns whether this peer has left for a long pause."""
    with timer("loading the libraries of training"), startup.loading_libraries():
        from trainer.train import train

    chosen, milestones = options.chosen, Milestones()
    milestones.learn(admitted.answer.standing)
    renewal = admitted.renewal(view.message, learn=milestones.learn)
    file = admitted.identity.path.parent / page_orders.FILE_NAME
    page.admit(admitted.answer.pass_, str(admitted.identity.peer_id), file, admitted.contact.pause_order)
    spot = SpotNotice(view.message) if options.spot else None

    def when_joined(dht: "DHT") -> None:
        renewal.start(dht)
        page.start()
        if spot is not None:
            spot.start()

    trainer = TrainerOptions(
        tokenizer=admitted.tokenizer,
        fingerprint=admitted.answer.manifest.fingerprint,
        identity=admitted.identity,
        gate=admitted.gate,
        network=chosen.network(admitted.initial_peers(), client_mode=client_mode),
        chosen=chosen,
        default_grace=GRACE if spot is None else spot.grace,
        when_joined=when_joined,
        pauses=watch,
        milestones=milestones,
        timer=timer,
    )
    try:
        pausing = train(admitted.run, trainer, view, startup.PROCESS_STARTED)
    finally:
        renewal.stop()
        page.stop()
    admitted.check_end(renewal)
    return pausing
