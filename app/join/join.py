"""`sahaj join URL`, from top to bottom: from a link to a training peer."""

import base64
import contextlib
import getpass
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from app.join import machine_checks
from app.join.address import is_loopback, is_private
from app.join.coordinator_client import Access, CoordinatorClient
from app.join.hub_token import HubToken, ask_for_token, check_token, find_token
from app.join.manifest import folder_name, read_manifest, write_manifest
from app.join.peer_folder import IDENTITY, PEERS, default_folder
from app.join.problems import JoinProblem, ProblemKind, one_line
from swarm.access.join_messages import JoinAnswer, JoinRequest, Renewed
from swarm.dht import remembered_peers
from swarm.files import keep_private
from swarm.logging import logs
from swarm.program import program_version
from swarm.run_file import RunFile
from trainer.console.notebook import NotebookView
from trainer.console.view import ConsoleView
from trainer.options import TrainerOptions, VolunteerOptions
from trainer.startup_timer import StartupTimer

if TYPE_CHECKING:  # these take seconds to import, and a wrong link should be reported at once
    from app.join.pass_renewal import CoordinatorContact
    from swarm.access.gate import Gate
    from swarm.identity import Identity

LONGEST_NAME = 40  # characters


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


@dataclass(frozen=True)
class Admitted:
    """A peer that has a pass and the run's files: everything that training needs."""

    answer: JoinAnswer
    run: RunFile
    identity: "Identity"
    gate: "Gate"
    contact: "CoordinatorContact"
    peer_folder: Path
    run_folder: Path
    client_mode: bool


def join(url: str, options: JoinOptions) -> None:
    """Join the run behind a URL and train until it is done or the volunteer leaves.

    Raises:
        SahajError: one line about what stands in the way, and what to do next.
    """
    with NotebookView() if options.notebook else ConsoleView(Console()) as view:
        timer = StartupTimer(view.message) if options.verbose else StartupTimer()
        with CoordinatorClient(url) as client:
            with timer("asking the coordinator"):
                access = client.access()
            if warning := warning_about_token(access, options.name, client.base):
                view.message(warning)
            with timer("finding out who you are"):
                token, name = who(access, options)
            admitted = _enter(client, token, name, options, timer, view.message)
        _train(admitted, options, timer, view)


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
            return None, user_name()
        token = ask_for_token()
    try:
        check_token(token, allow_write=options.allow_write_token, notebook=options.notebook)
    except JoinProblem as problem:
        if not access.open:
            raise
        if problem.kind is ProblemKind.HUB_AWAY:
            return None, user_name()
        raise JoinProblem(problem.kind, f"{problem}; or join without a token: --name NAME") from None
    return token, None


def warning_about_token(access: Access, name: str | None, url: str) -> str | None:
    """What to say before a token is asked for or sent, where others could read it on its way."""
    needs_none = access.open and name is not None
    if needs_none or is_private(url):
        return None
    return (
        f"Note: {url} is not encrypted: your token could be read on the way. Ctrl-C to stop, and ask for an https link."
    )


def _enter(
    client: CoordinatorClient,
    token: HubToken | None,
    name: str | None,
    options: JoinOptions,
    timer: StartupTimer,
    say: Callable[[str], None],
) -> Admitted:
    """Get a pass and the manifest, and check that this machine and this program fit the run."""
    with timer("loading the program"):
        from app.join.pass_renewal import CoordinatorContact
        from swarm.access.gate import Gate
        from swarm.access.passes import check_pass, read_pass
        from swarm.identity import load_identity
    peer_folder = options.state or default_folder(client.base)
    if problem := keep_private(peer_folder):
        say(problem)
    identity = load_identity(peer_folder / IDENTITY)  # its lock keeps other processes out of the folder and its logs
    if problem := logs.write_to(peer_folder / logs.FOLDER, "trainer"):
        say(problem)
    request = JoinRequest(
        # pydantic takes bytes of this kind in base64
        public_key=base64.b64encode(identity.private_key.get_public_key().to_bytes()),
        peer_id=str(identity.peer_id),
        version=program_version(),
        name=name,
    )
    bearer = token.value if token else None
    with timer("asking for a pass"):
        answer = client.join(request, bearer)
    manifest = answer.manifest
    run = read_manifest(manifest, data=options.data, trusted=is_loopback(client.base))
    own = read_pass(answer.pass_)
    check_pass(own, answer.authority, run.name, identity.peer_id)
    run_folder = peer_folder / folder_name(run, manifest)
    with timer("checking this machine"):
        found = list(machine_checks.findings(run, machine_checks.measure(peer_folder, options.chosen.device)))
        machine_checks.refuse_if_fatal(found)
        client_mode = _client_mode(client.base, options.chosen)
    with timer("fetching the tokenizer"):
        run = write_manifest(manifest, run, run_folder, client.tokenizer_file)
    with timer("comparing fingerprints"):
        request = _check_fingerprint(client, run, answer, request, bearer)
    for line in machine_checks.plan(run, own.user, verified=own.verified, client_mode=client_mode):
        say(one_line(line))
    for finding in found:
        say(finding.message)
    gate = Gate(run_folder, run.name, answer.authority, own, answer.notices)
    contact = CoordinatorContact(client.base, gate, request, bearer)
    return Admitted(answer, run, identity, gate, contact, peer_folder, run_folder, client_mode)


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
            f"{run.name}: this program makes the fingerprint {ours.digest} of the run, the coordinator {theirs}; "
            "install the version that the coordinator has",
        )
    return request


def _train(admitted: Admitted, options: JoinOptions, timer: StartupTimer, view: ConsoleView) -> None:
    with timer("loading the libraries of training"):
        from app.join.pass_renewal import Renewal
        from app.join.spot_notice import SpotNotice
        from trainer.train import train

    gate, chosen, peers_file = admitted.gate, options.chosen, admitted.run_folder / PEERS

    def ended(message: str) -> None:
        view.message(message)
        os.kill(os.getpid(), signal.SIGINT)  # training ends as on Ctrl-C: the others are told

    renewal = Renewal(
        admitted.contact,
        gate,
        admitted.identity.peer_id,
        say=view.message,
        ended=ended,
        renewed=lambda answer: _remember_newer(peers_file, answer),
    )
    trainer = TrainerOptions(
        identity=admitted.identity,
        gate=gate,
        network=chosen.network(_initial_peers(admitted, peers_file), client_mode=admitted.client_mode),
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


def _initial_peers(admitted: Admitted, peers_file: Path) -> list[str]:
    """The addresses to join by: the coordinator's, then those of earlier sessions."""
    current = remembered_peers.usable(admitted.answer.initial_peers)
    if not current:
        raise JoinProblem(
            ProblemKind.MANIFEST, f"{admitted.run.name}: the coordinator names no peer to join by; tell the organizer"
        )
    addresses = remembered_peers.merge(current, remembered_peers.recall(peers_file))
    remembered_peers.remember(peers_file, addresses)
    return addresses


def _remember_newer(peers_file: Path, answer: Renewed) -> None:
    with contextlib.suppress(Exception):  # a convenience for the next time, and no reason to stop
        current = remembered_peers.usable(answer.initial_peers)
        remembered_peers.remember(peers_file, remembered_peers.merge(current, remembered_peers.recall(peers_file)))


def _client_mode(url: str, chosen: VolunteerOptions) -> bool:
    if chosen.client_mode is not None:
        return chosen.client_mode
    if chosen.listen or chosen.announce:
        return False
    return machine_checks.needs_client_mode(*machine_checks.addresses_towards(url))


def user_name() -> str:
    """The login name, or a plain one where the system knows none (in containers)."""
    try:
        return getpass.getuser()[:LONGEST_NAME]
    except (KeyError, OSError):
        return "volunteer"
