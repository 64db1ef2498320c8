"""The way into a run, the same for every kind of peer: from a link to a pass and the run's files."""

import base64
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.join import machine_checks
from app.join.background import page_orders
from app.join.coordinator_client import CoordinatorClient
from app.join.hub_token import HubToken
from app.join.manifest import folder_name, write_manifest
from app.join.peer_folder import IDENTITY, LINK, PAUSE, PEERS
from app.join.problems import JoinProblem, ProblemKind, one_line
from app.join.refusals import REASONS
from app.startup import loading_libraries
from swarm.access.join_messages import JoinAnswer, JoinRequest, Refusal, Renewed
from swarm.access.team_refusals import in_own_language
from swarm.dht import remembered_peers
from swarm.errors import StorageError
from swarm.files import is_of_another_kind, keep_private, write_file
from swarm.language import _
from swarm.leaving import ask_to_leave
from swarm.logging import logs
from swarm.logging.startup_timer import StartupTimer
from swarm.milestones import Standing
from swarm.run_file import RunFile
from swarm.version import program_version
from trainer.options import VolunteerOptions
from trainer.pausing import daily_traffic

if TYPE_CHECKING:  # these take seconds to import, and a wrong link should be reported at once
    from transformers import PreTrainedTokenizerFast

    from app.join.background.pass_renewal import CoordinatorContact, Renewal
    from swarm.access.gate import Gate
    from swarm.identity import Identity

Say = Callable[[str], None]


@dataclass(frozen=True)
class Guest:
    """A peer that the coordinator has let in; of the run it has the manifest alone."""

    client: CoordinatorClient
    answer: JoinAnswer
    request: JoinRequest
    bearer: str | None  # the Hub token that was shown
    identity: "Identity"
    peer_folder: Path

    def settle(self, run: RunFile, timer: StartupTimer) -> "Admitted":
        """Fetch the run's files, and compare what peers must agree on.

        Args:
            run: what `read_manifest` has made of the manifest.

        Raises:
            SahajError: the pass, a file or the fingerprint is not the run's.
        """
        from app.join.background.pass_renewal import CoordinatorContact
        from swarm.access.gate import Gate
        from swarm.access.passes import check_pass, read_pass

        answer = self.answer
        own = read_pass(answer.pass_)
        check_pass(own, answer.authority, run.name, self.identity.peer_id)
        folder = self.run_folder(run)
        with timer("fetching the tokenizer"):
            run = write_manifest(answer.manifest, run, folder, self.client.tokenizer_file)
        with timer("comparing fingerprints"):
            tokenizer, request = self._check_fingerprint(run)
        gate = Gate(folder, run.name, answer.authority, own, answer.notices)
        contact = CoordinatorContact(self.client.base, gate, request, self.bearer)
        return Admitted(answer, run, tokenizer, self.identity, gate, contact, folder)

    def run_folder(self, run: RunFile) -> Path:
        """Where the run's files are, and what this peer keeps of it."""
        return self.peer_folder / folder_name(run, self.answer.manifest)

    def _check_fingerprint(self, run: RunFile) -> tuple["PreTrainedTokenizerFast", JoinRequest]:
        """Compare what this peer would train with; returns the tokenizer, and the request for renewals."""
        from swarm.run_file.fingerprint import fingerprint
        from tokenizer.loading import load_tokenizer, tokenizer_digest

        tokenizer = load_tokenizer(run)
        ours, theirs = fingerprint(run, tokenizer_digest(tokenizer)), self.answer.manifest.fingerprint
        request = self.request.model_copy(update={"fingerprint": dict(ours.values)})
        if ours.digest != theirs:
            self.client.join(request, self.bearer)  # the coordinator refuses, and names what differs
            raise JoinProblem(
                ProblemKind.WRONG_FINGERPRINT,
                _(
                    "{run}: this program would train with other settings than the run (fingerprint {ours}, not "
                    "{theirs}); join with the command or the notebook that the organizer shares"
                ).format(run=run.name, ours=ours.digest, theirs=theirs),
            )
        return tokenizer, request


@dataclass(frozen=True)
class Admitted:
    """A peer that has a pass and the run's files: everything that its work needs."""

    answer: JoinAnswer
    run: RunFile
    tokenizer: "PreTrainedTokenizerFast"
    identity: "Identity"
    gate: "Gate"
    contact: "CoordinatorContact"
    run_folder: Path

    def initial_peers(self) -> list[str]:
        """The addresses to join by: the coordinator's, then those of earlier sessions.

        Raises:
            JoinProblem: the coordinator names none.
        """
        current = remembered_peers.usable(self.answer.initial_peers)
        if not current:
            raise JoinProblem(
                ProblemKind.MANIFEST,
                _("{run}: the coordinator names no peer to join by; tell the organizer").format(run=self.run.name),
            )
        return self._remember(current)

    def check_end(self, renewal: "Renewal") -> None:
        """See why the work of this peer is over.

        Raises:
            JoinProblem: it may not go on, though the run does.
        """
        if renewal.ended_by is not None and renewal.ended_by.kind is not ProblemKind.FINISHED:
            raise renewal.ended_by
        if self.gate.notices.bans(self.gate.own.user, str(self.identity.peer_id)):
            raise JoinProblem(ProblemKind.BANNED, _(REASONS[Refusal.BANNED]))

    def renewal(
        self, say: Say, work: str = "training", *, learn: Callable[[Standing | None], None] = lambda _: None
    ) -> "Renewal":
        """Keeps the pass fresh; where this peer may not go on, that is said, and it leaves as on Ctrl-C.

        Args:
            work: what this peer does.
            learn: called with what the coordinator says that the person has given so far.
        """
        from app.join.background.pass_renewal import Renewal

        def ended(message: str) -> None:
            say(message)
            ask_to_leave()  # in order: the others are told

        def renewed(answer: Renewed) -> None:
            learn(answer.standing)
            with contextlib.suppress(Exception):  # a convenience for the next time, and no reason to stop
                self._remember(remembered_peers.usable(answer.initial_peers))

        peer_id = self.identity.peer_id
        return Renewal(self.contact, self.gate, peer_id, say=say, ended=ended, renewed=renewed, work=work)

    def _remember(self, current: list[str]) -> list[str]:
        file = self.run_folder / PEERS
        addresses = remembered_peers.merge(current, remembered_peers.recall(file))
        remembered_peers.remember(file, addresses)
        return addresses


def ask_for_pass(
    client: CoordinatorClient,
    token: HubToken | None,
    name: str | None,
    folders: Iterable[Path],
    log: str,
    timer: StartupTimer,
    say: Say,
    *,
    team: str | None = None,
) -> Guest:
    """Get a pass for the peer in the first of these folders that no other process uses.

    Args:
        log: name of the peer's log.
        team: to be in from now on. Renewals do not ask for it again: the person may have left it since.

    Raises:
        SahajError: other processes use the folders, or the coordinator does not let this peer in.
    """
    with timer("loading the program"), loading_libraries():
        import swarm.identity  # noqa: F401 (`_claim` imports it again, at once)
    identity = _claim(folders, say)
    peer_folder = identity.path.parent
    write_file(peer_folder / LINK, f"{client.base}\n")
    if problem := logs.write_to(peer_folder / logs.FOLDER, log):
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
        answer = client.join(request.model_copy(update={"team": team}) if team else request, bearer)
    return Guest(client, answer, request, bearer, identity, peer_folder)


def _claim(folders: Iterable[Path], say: Say) -> "Identity":
    """The identity in the first folder that is free; its lock keeps other processes out of the folder and its logs."""
    from swarm.identity import IdentityInUse, load_identity

    used, before = None, (daily_traffic.FILE_NAME, page_orders.FILE_NAME, PAUSE)  # files that may come before the peer
    for folder in folders:
        if is_of_another_kind(folder, (IDENTITY, LINK), besides=before):
            reason = _("{folder}: holds something other than a peer; choose a new folder with --state")
            raise StorageError(reason.format(folder=folder))
        if problem := keep_private(folder):
            say(problem)
        try:
            return load_identity(folder / IDENTITY)
        except IdentityInUse as error:  # since it was looked at
            used = error
    assert used is not None, "there is a folder"
    raise used


def team_line(wanted: str, answer: JoinAnswer) -> str:
    """What has come of the wish to be in a team; whatever it is, the peer trains."""
    if answer.team:
        return _("You train for the team {team}.").format(team=answer.team)
    why = in_own_language(one_line(answer.no_team)) or _("this coordinator has no teams")
    said = _("You are not in the team {team}: {why}. You train all the same; `sahaj team LINK` shows the teams.")
    return said.format(team=wanted, why=why)


def is_unreachable(url: str, chosen: VolunteerOptions, *, when_offline: bool = True) -> bool:
    """Whether others cannot connect to this machine, as the volunteer says, or as it looks from here.

    Args:
        when_offline: what to answer while this machine finds no way to the URL.
    """
    if chosen.client_mode is not None:
        return chosen.client_mode
    if chosen.listen or chosen.announce:
        return False
    own, coordinator = machine_checks.addresses_towards(url)
    return machine_checks.needs_client_mode(own, coordinator) if own else when_offline
