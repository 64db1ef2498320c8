"""What `sahaj join URL` does, from top to bottom: from a link to a training peer."""

import base64
import contextlib
import getpass
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from app.join import checks
from app.join.address import is_loopback, is_private
from app.join.coordinator_client import Door, RunInfo
from app.join.current_address import ask_where_it_is
from app.join.home import IDENTITY, default_folder
from app.join.manifest import folder_name, read_manifest, write_manifest
from app.join.problems import (
    HubAway,
    ManifestProblem,
    NameProblem,
    RunFinished,
    TokenRejected,
    TokenTooStrong,
    WrongFingerprint,
    one_line,
)
from app.join.reachability import addresses_towards, needs_client_mode
from app.join.token import HubToken, ask_for_token, check_token, find_token
from swarm.access.join_messages import JoinAnswer, JoinRequest, Renewed
from swarm.dht import known_peers
from swarm.logging import logs
from swarm.private_folder import keep_private
from swarm.program import program_version
from swarm.run_file import RunFile
from trainer.console.notebook import NotebookView
from trainer.console.view import ConsoleView
from trainer.startup_timer import Steps

if TYPE_CHECKING:  # these take seconds to import, and a wrong link should be told at once
    from swarm.access.gate import Gate
    from swarm.identity import Identity
    from swarm.run_file.fingerprint import Fingerprint

PEERS = "peers.json"
LONGEST_NAME = 40  # characters


@dataclass(frozen=True)
class JoinOptions:
    """What a volunteer may choose; nothing of it has to be."""

    name: str | None = None  # self-chosen, where the run is open
    allow_write_token: bool = False
    data: Path | None = None  # text of this machine, in place of the run's
    state: Path | None = None  # folder of identity and manifest
    client_mode: bool | None = None  # found if absent
    listen: tuple[str, ...] = ()
    announce: tuple[str, ...] = ()
    relays: tuple[str, ...] = ()
    device: str | None = None
    micro_batch: int | None = None
    compile: bool = False
    country: str | None = None  # ISO 3166
    max_upload: float | None = None  # Mbit/s
    max_download: float | None = None  # Mbit/s
    grace: float | None = None  # seconds after SIGTERM in which a global step may be finished
    spot: bool = False  # leave when the cloud gives notice
    notebook: bool = False  # show pages for a notebook to display
    verbose: bool = False
    process_started: float = 0.0  # unix time, seconds


@dataclass(frozen=True)
class Admitted:
    """A peer that has been let in: everything that training needs."""

    url: str
    answer: JoinAnswer
    run: RunFile
    identity: "Identity"
    gate: "Gate"
    home: Path  # of the peer
    folder: Path  # of the run
    client_mode: bool
    again: JoinRequest  # what a renewal asks


def join(url: str, options: JoinOptions) -> None:
    """Join the run behind a URL and train until it is done or the volunteer leaves.

    Raises:
        SahajError: one line about what stands in the way, and what to do next.
    """
    with NotebookView() if options.notebook else ConsoleView(Console()) as view:
        steps = Steps(view.message if options.verbose else None)
        with Door(url) as door:
            with steps("asking the coordinator"):
                about = door.describe()
            if warning := warning_about_token(about, options.name, door.base):
                view.message(warning)
            with steps("finding out who you are"):
                token, name = who(about, options)
            admitted, ask = _enter(door, token, name, options, steps, view.message)
        _train(admitted, ask, options, steps, view)


def who(about: RunInfo, options: JoinOptions) -> tuple[HubToken | None, str | None]:
    """The token to show, or the name to go by where the run is open; a name that is given goes before a token.

    Raises:
        JoinProblem: the name or the token cannot be used, or nobody can be asked for one.
    """
    if options.name is not None and not _is_name(options.name):
        raise NameProblem(f"--name {options.name!r}: must have 1 to {LONGEST_NAME} printable characters")
    if about.access.open and options.name is not None:
        return None, options.name
    token = find_token()
    if token is None:
        if about.access.open:
            return None, _user_name()
        token = ask_for_token()
    try:
        check_token(token, allow_write=options.allow_write_token, notebook=options.notebook)
    except HubAway:
        if about.access.open:
            return None, _user_name()
        raise
    except (TokenRejected, TokenTooStrong) as problem:
        if about.access.open:
            raise type(problem)(f"{problem}; or join without a token: --name NAME") from None
        raise
    return token, None


def warning_about_token(about: RunInfo, name: str | None, url: str) -> str | None:
    """What to say before a token is asked for or sent, where others could read it on its way."""
    needs_none = about.access.open and name is not None
    if needs_none or is_private(url):
        return None
    return (
        f"Note: {url} is not encrypted: your token could be read on the way. Ctrl-C to stop, and ask for an https link."
    )


def _enter(
    door: Door,
    token: HubToken | None,
    name: str | None,
    options: JoinOptions,
    steps: Steps,
    say: Callable[[str], None],
) -> tuple[Admitted, Callable[[], JoinAnswer]]:
    """Get a pass and the manifest; returns them, and how to ask for the next pass."""
    with steps("loading the program"):
        from swarm.access.gate import Gate
        from swarm.access.passes import check_pass, read_pass
        from swarm.identity import load_identity
    home = options.state or default_folder(door.base)
    if problem := keep_private(home):
        say(problem)
    identity = load_identity(home / IDENTITY)  # whoever has it has the folder, and its logs, to itself
    if problem := logs.write_to(home / logs.FOLDER, "trainer"):
        say(problem)
    request = JoinRequest(
        # pydantic takes bytes of this kind in base64
        public_key=base64.b64encode(identity.private_key.get_public_key().to_bytes()),
        peer_id=str(identity.peer_id),
        version=program_version(),
        name=name,
    )
    with steps("asking to be let in"):
        answer = door.join(request, token.value if token else None)
    run = read_manifest(answer.manifest, data=options.data, trusted=is_loopback(door.base))
    own = read_pass(answer.pass_)
    check_pass(own, answer.authority, run.name, identity.peer_id)
    folder = home / folder_name(run, answer.manifest)
    with steps("checking this machine"):
        found = checks.findings(run, checks.measure(home, options.device))
        checks.refuse_if_fatal(found)
        client_mode = _client_mode(door.base, options)
    with steps("fetching the tokenizer"):
        run = write_manifest(answer.manifest, run, folder, door.tokenizer_file)
    with steps("comparing fingerprints"):
        ours = _fingerprint(run)
        again = request.model_copy(update={"fingerprint": dict(ours.values)})
        if ours.digest != answer.manifest.fingerprint:
            door.join(again, token.value if token else None)  # it refuses, and names what differs
            raise WrongFingerprint(
                f"{run.name}: this program makes the fingerprint {ours.digest} of the run, the coordinator "
                f"{answer.manifest.fingerprint}; install the version that the coordinator has"
            )
    for line in checks.plan(run, own.user, verified=own.verified, client_mode=client_mode):
        say(one_line(line))
    for finding in found:
        say(finding.message)
    gate = Gate(folder, run.name, answer.authority, own, answer.notices)
    base = door.base

    def ask() -> JoinAnswer:
        # the peer has forked since: no connection is shared with its helpers
        return ask_where_it_is(base, gate.notices.url, lambda now: now.join(again, token.value if token else None))

    return Admitted(base, answer, run, identity, gate, home, folder, client_mode, again), ask


def _train(
    admitted: Admitted, ask: Callable[[], JoinAnswer], options: JoinOptions, steps: Steps, view: ConsoleView
) -> None:
    with steps("loading the libraries of training"):
        from app.join.libp2p_renewal import renew_directly
        from app.join.preemption import Spot
        from app.join.renewal import Renewal
        from swarm.dht.node import Network
        from swarm.leaving import GRACE
        from trainer.options import TrainerOptions
        from trainer.train import train

    answer, peers = admitted.answer, admitted.folder / PEERS
    current = known_peers.usable(answer.initial_peers)
    if not current:
        raise ManifestProblem(f"{admitted.url}: the coordinator names no peer to join by; tell the organizer")
    addresses = known_peers.merge(current, known_peers.recall(peers))
    known_peers.remember(peers, addresses)

    def ended(message: str) -> None:
        view.message(message)
        os.kill(os.getpid(), signal.SIGINT)  # training ends as on Ctrl-C: the others are told

    def hear() -> bytes:
        return ask_where_it_is(admitted.url, admitted.gate.notices.url, Door.notices)

    renewal = Renewal(
        ask,
        lambda dht: renew_directly(dht, admitted.gate, admitted.again),
        hear,
        admitted.gate,
        admitted.identity.peer_id,
        admitted.gate.own.expires,
        say=view.message,
        ended=ended,
        renewed=lambda newer: _remember_newer(peers, newer),
    )
    spot = Spot(view.message) if options.spot else None
    grace = spot.grace if options.grace is None and spot else options.grace
    network = Network(
        initial_peers=addresses,
        listen=options.listen or Network.listen,
        announce=options.announce,
        client_mode=admitted.client_mode,
        relays=options.relays,
    )
    trainer = TrainerOptions(
        name=admitted.gate.own.user,
        state_folder=admitted.home,
        network=network,
        device=options.device,
        micro_batch=options.micro_batch,
        compile=options.compile,
        country=options.country,
        max_upload=options.max_upload,
        max_download=options.max_download,
        grace=GRACE if grace is None else grace,
        identity=admitted.identity,
        gate=admitted.gate,
        when_joined=(renewal.start, lambda _: spot.start()) if spot else (renewal.start,),
        steps=steps,
    )
    try:
        train(admitted.run, trainer, view, options.process_started)
    finally:
        renewal.stop()
    if renewal.ended_by is not None and not isinstance(renewal.ended_by, RunFinished):
        raise renewal.ended_by


def _fingerprint(run: RunFile) -> "Fingerprint":
    """What this peer would train with."""
    from swarm.run_file.fingerprint import fingerprint
    from tokenizer.loading import load_tokenizer, tokenizer_digest

    return fingerprint(run, tokenizer_digest(load_tokenizer(run)))


def _client_mode(url: str, options: JoinOptions) -> bool:
    if options.client_mode is not None:
        return options.client_mode
    if options.listen or options.announce:
        return False
    return needs_client_mode(*addresses_towards(url))


def _remember_newer(path: Path, answer: Renewed) -> None:
    with contextlib.suppress(Exception):  # a convenience for the next time, and no reason to stop
        known_peers.remember(
            path, known_peers.merge(known_peers.usable(answer.initial_peers), known_peers.recall(path))
        )


def _is_name(name: str) -> bool:
    return name.strip() != "" and len(name) <= LONGEST_NAME and name.isprintable()


def _user_name() -> str:
    """The name of whoever runs this, or a plain one where the system does not know (in containers)."""
    try:
        return getpass.getuser()[:LONGEST_NAME]
    except (KeyError, OSError):
        return "volunteer"
