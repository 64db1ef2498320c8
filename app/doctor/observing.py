"""Looks at everything within one bound in time; what fails or hangs is an exception in what was observed."""

import base64
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from app.doctor.asking import PeerProcess
from app.doctor.background import outcome, outcome_or, start
from app.doctor.machine import TokenSeen, look_for_token, try_to_write
from app.doctor.network import LinkSeen, PeerAddress, answers_by_udp, knock, look_at_link, peer_address
from app.doctor.peer_process import PassSeen, PeerSeen, TorchSeen, look_at_passes, look_at_peer, look_at_torch
from app.join.address import coordinator_url, is_loopback, is_private
from app.join.coordinator_client import CoordinatorClient, RunDescription
from app.join.machine_checks import Computer, addresses_towards, measure_without_torch, needs_client_mode
from app.join.manifest import read_manifest
from app.join.peer_folder import cache_folder, default_folder, peer_folders
from app.join.problems import JoinProblem
from app.join.volunteer import user_name
from swarm.access.join_messages import JoinAnswer, JoinRequest
from swarm.language import _
from swarm.run_file import RunFile
from swarm.version import program_version, release_of

# shares of the time at whose ends a stage is over: this machine and the link; asking for a pass; passes and peers
LOOKED, ASKED, CALLED = 0.6, 0.8, 0.9
LOOPBACK = ("/ip4/127.", "/ip6/::1/")  # addresses that lead elsewhere here than on the coordinator's machine
T = TypeVar("T")


@dataclass(frozen=True)
class RunSeen:
    """What was seen of a run and of the way to it."""

    link: LinkSeen
    answered: JoinAnswer | Exception | str = ""  # to the request for a pass; why it was not made
    run: RunFile | None = None
    passes: list[PassSeen] = field(default_factory=list)
    peers: dict[PeerAddress, Exception | None] = field(default_factory=dict)
    coordinators: str = ""  # its peer id, where it is known
    own_address: str = ""
    client_mode: bool = True
    udp: bool | None = None  # whether a known peer answers by UDP; None: not looked at

    @property
    def description(self) -> RunDescription | None:
        """What the run is, if it answers."""
        return self.link.run if isinstance(self.link.run, RunDescription) else None


@dataclass(frozen=True)
class Observed:
    """What was seen. `run` is a problem where the link is no link, and None where none was given."""

    torch: TorchSeen | Exception
    computer: Computer | Exception
    unwritable: Exception | None
    token: TokenSeen | Exception
    version: str  # of this program
    run: RunSeen | Exception | None = None


def observe(link: str | None, state: Path | None, patience: float) -> Observed:
    """Everything, after so many seconds at most.

    Args:
        link: of a run; None: this machine alone.
        state: the folder of the peer, where it is not the usual one.
    """
    began = time.monotonic()
    stages = [began + share * patience for share in (LOOKED, ASKED, CALLED)]
    with PeerProcess() as process:
        try:
            url = coordinator_url(link) if link is not None else None
        except JoinProblem as problem:
            return replace(_look_at_machine(process, state or cache_folder(), stages[0]), run=problem)
        if url is None:
            return _look_at_machine(process, state or cache_folder(), stages[0])
        folder = state or default_folder(url)
        looking = start(lambda: look_at_link(url, stages[0]))
        machine = _look_at_machine(process, folder, stages[0])
        seen = _caught(lambda: outcome(looking, stages[1]))
        if isinstance(seen, Exception):
            return replace(machine, run=seen)
        folders = dict.fromkeys([state] if state is not None else [default_folder(seen.url), *peer_folders(seen.url)])
        return replace(machine, run=_look_at_run(process, seen, machine, list(folders), stages))


def _look_at_machine(process: PeerProcess, folder: Path, until: float) -> Observed:
    asked = start(lambda: process.ask(until, look_at_torch))
    written = start(lambda: try_to_write(folder))
    token = start(look_for_token)
    torch = _caught(lambda: outcome(asked, until + 1.0))  # it gives up by itself, before another question is asked
    device, memory = ("", None) if isinstance(torch, Exception) else (torch.device, torch.device_memory)
    measured = start(lambda: measure_without_torch(folder, device, memory))
    return Observed(
        torch=torch,
        computer=_caught(lambda: outcome(measured, until + 1.0)),
        unwritable=_caught(lambda: outcome(written, until + 1.0)),
        token=_caught(lambda: outcome(token, until)),
        version=program_version(),
    )


def _look_at_run(
    process: PeerProcess, link: LinkSeen, machine: Observed, folders: list[Path], stages: Sequence[float]
) -> RunSeen:
    _, asked_by, called_by = stages
    seen = RunSeen(link)
    peer: PeerSeen | Exception = (
        machine.torch
        if isinstance(machine.torch, Exception)
        else _caught(lambda: process.ask(asked_by, look_at_peer, folders[0]))
    )
    seen = replace(seen, answered=why_not_ask(seen, machine, peer))
    if not seen.answered and not isinstance(peer, Exception):
        asked = start(lambda: ask_for_pass(link.url, peer, machine.token, seen.description))
        seen = replace(seen, answered=_caught(lambda: outcome(asked, asked_by)))
    addresses = [] if isinstance(peer, Exception) else peer.addresses
    authority = b""
    if isinstance(seen.answered, JoinAnswer):
        manifest, authority = seen.answered.manifest, seen.answered.authority
        addresses = [*seen.answered.initial_peers, *addresses]
        seen = replace(seen, coordinators=(seen.answered.initial_peers or [""])[0].rpartition("/p2p/")[2])
        run = _caught(lambda: read_manifest(manifest, trusted=is_loopback(link.url)))
        seen = replace(seen, answered=run) if isinstance(run, Exception) else replace(seen, run=run)
    known = dict.fromkeys(filter(None, map(peer_address, _leading_there(addresses, link.url))))
    knocking = start(lambda: knock(known, called_by))
    greeting = start(lambda: answers_by_udp(known, called_by))
    name = seen.description.name if seen.description else ""
    passes = _caught(lambda: process.ask(called_by, look_at_passes, folders, name, authority))
    own, theirs = "", ""
    if not isinstance(link.addresses, JoinProblem):
        own, theirs = outcome_or(start(lambda: addresses_towards(link.url)), called_by, ("", ""))
    knocked = _caught(lambda: outcome(knocking, called_by + 1.0))
    return replace(
        seen,
        passes=[] if isinstance(passes, Exception) else passes,
        peers={} if isinstance(knocked, Exception) else knocked,
        own_address=own,
        client_mode=needs_client_mode(own, theirs),
        udp=outcome_or(greeting, called_by + 1.0, False) if known else None,
    )


def why_not_ask(seen: RunSeen, machine: Observed, peer: PeerSeen | Exception) -> str | Exception:
    """Why no pass is asked for; empty if one is."""
    if seen.description is None:
        return _("the coordinator does not answer")
    if release_of(seen.description.version) != release_of(machine.version):
        return _("see {check}").format(check="version")
    if isinstance(peer, Exception):
        return _("see {check}").format(check="torch") if peer is machine.torch else peer
    if seen.description.access.open:
        return ""
    if isinstance(machine.token, Exception) or not machine.token.user:
        return _("see {check}").format(check="token")
    if not is_private(seen.link.url):
        return _("see {check}").format(check="encryption")
    return ""


def ask_for_pass(
    url: str, peer: PeerSeen, token: TokenSeen | Exception, described: RunDescription | None
) -> JoinAnswer:
    """As joining does; the pass is not kept."""
    is_open = described is not None and described.access.open
    seen = TokenSeen(None) if isinstance(token, Exception) else token
    serves = not is_open or (seen.user and is_private(url))
    shown = seen.token.value if seen.token and serves else None
    request = JoinRequest(
        peer_id=peer.peer_id,
        public_key=base64.b64encode(peer.public_key),  # pydantic takes bytes of this kind in base64
        version=program_version(),
        name=user_name() if is_open and shown is None else None,
    )
    with CoordinatorClient(url, tolerance=float("inf")) as client:
        return client.join(request, shown)


def _leading_there(addresses: Sequence[str], url: str) -> list[str]:
    return [one for one in addresses if is_loopback(url) or not one.startswith(LOOPBACK)]


def _caught(look: Callable[[], T]) -> T | Exception:
    try:
        return look()
    except Exception as error:  # a check that fails is a line of the report
        return error
