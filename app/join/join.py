"""`sahaj join URL`, from top to bottom: from a link to a training peer."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from app.join import machine_checks
from app.join.address import is_loopback
from app.join.admission import Admitted, Say, ask_for_pass, identify, is_unreachable
from app.join.coordinator_client import CoordinatorClient
from app.join.installation import keep_installation
from app.join.manifest import read_manifest
from app.join.peer_folder import default_folder
from app.join.problems import ProblemKind, one_line
from trainer.console.notebook import NotebookView
from trainer.console.view import ConsoleView
from trainer.options import TrainerOptions, VolunteerOptions
from trainer.startup_timer import StartupTimer


@dataclass(frozen=True)
class JoinOptions:
    """What `sahaj join` can be told; every option has a default."""

    name: str | None = None  # self-chosen, where the run is open
    allow_write_token: bool = False
    data: Path | None = None  # text of this machine, in place of the run's
    state: Path | None = None  # folder of identity and manifest
    spot: bool = False  # leave when Amazon gives notice
    notebook: bool = False  # show pages for a notebook to display
    verbose: bool = False
    process_started: float = 0.0  # unix time, seconds
    chosen: VolunteerOptions = field(default_factory=VolunteerOptions)


def join(url: str, options: JoinOptions) -> None:
    """Join the run behind a URL and train until it is done or the volunteer leaves.

    Raises:
        SahajError: one line about what stands in the way, and what to do next.
    """
    keep_installation()
    with NotebookView() if options.notebook else ConsoleView(Console()) as view:
        timer = StartupTimer(view.message) if options.verbose else StartupTimer()
        with CoordinatorClient(url) as client:
            admitted, client_mode = _enter(client, options, timer, view.message)
        _train(admitted, client_mode, options, timer, view)


<<<<<<< HEAD
def _enter(client: CoordinatorClient, options: JoinOptions, timer: StartupTimer, say: Say) -> tuple[Admitted, bool]:
    """Get a pass and the run's files, and check that this machine fits the run; also whether it needs client mode."""
    token, name = identify(
        client,
        options.name,
        timer,
        say,
        allow_write_token=options.allow_write_token,
        notebook=options.notebook,
=======
def who(access: Access, options: JoinOptions) -> tuple[HubToken | None, str | None]:
    """The token to show, or the name to use in an open run; a name that is given takes precedence over a token.

    Raises:
        JoinProblem: the name or the token cannot be used, or nobody can be asked for one.
    """
    name = options.name
    if name is not None and not (name.strip() and len(name) <= LONGEST_NAME and name.isprintable()):
        raise JoinProblem(ProblemKind.BAD_NAME, f"--name {name!r}: must have 1 to {LONGEST_NAME} printable characters")
    if access.open and name is not None:
        return None, name
    token = find_token()
    if token is None:
        if access.open:
            return None, _user_name()
        token = ask_for_token()
    try:
        check_token(token, allow_write=options.allow_write_token, notebook=options.notebook)
    except JoinProblem as problem:
        if not access.open:
            raise
        if problem.kind is ProblemKind.HUB_AWAY:
            return None, _user_name()
        raise JoinProblem(problem.kind, f"{problem}; or join without a token: --name NAME") from None
    return token, None


def warning_about_token(access: Access, name: str | None, url: str) -> str | None:
    """What to say before a token is asked for or sent, where others could read it on its way."""
    needs_none = access.open and name is not None
    if needs_none or is_private(url):
        return None
    return (
        f"Note: {url} is not encrypted, so others could read your token on the way. To avoid that, press Ctrl-C and "
        "ask the organizer for an https link."
>>>>>>> texts
    )
    peer_folder = options.state or default_folder(client.base)
    guest = ask_for_pass(client, token, name, peer_folder, "trainer", timer, say)
    run = read_manifest(guest.answer.manifest, data=options.data, trusted=is_loopback(client.base))
    with timer("checking this machine"):
        found = list(machine_checks.findings(run, machine_checks.measure(peer_folder, options.chosen.device)))
        machine_checks.refuse_if_fatal(found)
        client_mode = is_unreachable(client.base, options.chosen)
    admitted = guest.settle(run, timer)
    own = admitted.gate.own
    for line in machine_checks.plan(run, own.user, verified=own.verified, client_mode=client_mode):
        say(one_line(line))
    for finding in found:
        say(finding.message)
    return admitted, client_mode


<<<<<<< HEAD
def _train(admitted: Admitted, client_mode: bool, options: JoinOptions, timer: StartupTimer, view: ConsoleView) -> None:
=======
def _check_fingerprint(
    client: CoordinatorClient, run: RunFile, answer: JoinAnswer, request: JoinRequest, bearer: str | None
) -> JoinRequest:
    """Compare what this peer would train with; returns the request with it, for renewals."""
    from swarm.run_file.fingerprint import fingerprint
    from tokenizer.loading import load_tokenizer, tokenizer_digest

    ours, theirs = fingerprint(run, tokenizer_digest(load_tokenizer(run))), answer.manifest.fingerprint
    request = request.model_copy(update={"fingerprint": dict(ours.values)})
    if ours.digest != theirs:
        client.join(request, bearer)  # the coordinator refuses, and names what differs
        raise JoinProblem(
            ProblemKind.WRONG_FINGERPRINT,
            f"{run.name}: this program would train with other settings than the run (fingerprint {ours.digest}, not "
            f"{theirs}); install the coordinator's version of Sahaj",
        )
    return request


def _train(admitted: Admitted, options: JoinOptions, timer: StartupTimer, view: ConsoleView) -> None:
>>>>>>> texts
    with timer("loading the libraries of training"):
        from app.join.spot_notice import SpotNotice
        from trainer.train import train

    chosen, renewal = options.chosen, admitted.renewal(view.message)
    trainer = TrainerOptions(
        identity=admitted.identity,
        gate=admitted.gate,
        network=chosen.network(admitted.initial_peers(), client_mode=client_mode),
        chosen=chosen,
        when_joined=(renewal.start,),
        timer=timer,
    )
    if options.spot:
        spot = SpotNotice(view.message)
        trainer = replace(trainer, default_grace=spot.grace, when_joined=(renewal.start, spot.start))
    try:
        train(admitted.run, trainer, view, options.process_started)
    finally:
        renewal.stop()
    if renewal.ended_by is not None and renewal.ended_by.kind is not ProblemKind.FINISHED:
        raise renewal.ended_by
