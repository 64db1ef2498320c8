"""Before training: what this machine has, whether peers can connect to it, and what the volunteer is told.

The figures are estimates, so only what cannot work at all is refused; what may become tight is said.
"""

import contextlib
import ipaddress
import math
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from app.join.problems import JoinProblem, ProblemKind
from swarm.language import Language, _, current
from swarm.run_file import RunFile
from trainer.model_size import tensor_sizes

GB, MB = 1e9, 1e6
DISK = 200 * MB  # for tokenizer, run file and what libraries cache
PROGRAM = 1.0 * GB  # Python, torch and the swarm's processes before the first parameter
COPIES = 8  # of the parameters in memory: weights, gradients, what adds up, LAMB's two averages, averaging
SHARED_COPIES = 3  # of these in memory that processes share
DEVICE_COPIES = 3  # on a GPU: weights, gradients and what adds up
SHARED_MEMORY = Path("/dev/shm")
SAME_NETWORK = {4: 16, 6: 64}  # bits that addresses of one local network have in common


@dataclass(frozen=True)
class Computer:
    """What was measured, in bytes; None where the machine has no such thing."""

    disk_free: float
    memory_available: float
    memory_total: float
    shared_memory_free: float | None
    device: str  # as torch names it
    device_memory: float | None
    folder: Path = Path()  # on the disk that is checked


@dataclass(frozen=True)
class Finding:
    """One line about something that is, or may become, a problem."""

    message: str
    fatal: bool = False
    about: str = ""  # disk, memory, GPU memory or device


def findings(run: RunFile | None, computer: Computer) -> Iterator[Finding]:
    """What is worth saying about this machine for this run, or for any if that is None; mostly nothing."""
    weights = 4.0 * sum(tensor_sizes(run)) if run is not None else 0.0
    needed, shared, on_device = PROGRAM + COPIES * weights, SHARED_COPIES * weights, DEVICE_COPIES * weights
    free = computer.shared_memory_free
    if computer.disk_free < DISK:
        yield Finding(
            _("The disk of {folder} has {free} free, but {needed} is needed; free some space.").format(
                folder=computer.folder, free=size(computer.disk_free), needed=size(DISK)
            ),
            fatal=True,
            about="disk",
        )
    if computer.memory_total < needed:
        yield Finding(
            _(
                "This machine has {there} of memory, but about {needed} is needed; use a machine with more memory."
            ).format(there=size(computer.memory_total), needed=size(needed)),
            fatal=True,
            about="memory",
        )
    elif computer.memory_available < needed:
        yield Finding(
            _(
                "Only {free} of memory is free, but about {needed} is needed; close other programs if it becomes slow."
            ).format(free=size(computer.memory_available), needed=size(needed)),
            about="memory",
        )
    if free is not None and free < shared:
        yield Finding(
            _(
                "Shared memory ({folder}) has {free} free, but about {needed} is needed; in a container, start it with "
                "--shm-size={gigabytes}g."
            ).format(
                folder=SHARED_MEMORY, free=size(free), needed=size(shared), gigabytes=max(2, math.ceil(shared / GB))
            ),
            about="memory",
        )
    if computer.device_memory is not None and computer.device_memory < on_device:
        yield Finding(
            _("The GPU has {there} of memory, but about {needed} is needed; --device cpu uses the processor.").format(
                there=size(computer.device_memory), needed=size(on_device)
            ),
            about="GPU memory",
        )
    if computer.device.startswith("cpu"):
        yield Finding(_("No GPU is used: this machine helps with its processor, slowly but surely."), about="device")


def refuse_if_fatal(found: list[Finding]) -> None:
    """Raise a JoinProblem with the first finding that makes training impossible."""
    for finding in found:
        if finding.fatal:
            raise JoinProblem(ProblemKind.MACHINE_TOO_SMALL, finding.message)


def measure(folder: Path, device: str | None) -> Computer:
    """Measure this machine, and the disk that holds `folder`.

    Raises:
        DeviceError: there is no such device.
    """
    from trainer.precision import pick_device

    picked = pick_device(device)
    on_device = None
    if picked.type == "cuda":
        import torch

        on_device = float(torch.cuda.get_device_properties(picked).total_memory)
    return measure_without_torch(folder, str(picked), on_device)


def measure_without_torch(folder: Path, device: str, device_memory: float | None) -> Computer:
    """Measure this machine, with a device that is known already."""
    memory = psutil.virtual_memory()
    shared = float(psutil.disk_usage(str(SHARED_MEMORY)).free) if SHARED_MEMORY.is_dir() else None
    return Computer(disk_free(folder), memory.available, memory.total, shared, device, device_memory, folder)


def needs_client_mode(own: str, coordinator: str) -> bool:
    """Whether peers cannot connect to the address `own`, from which this machine reaches the address `coordinator`.

    A guess without flags: a public address can be reached, and so can one in the coordinator's local network; a machine
    behind a router, as most volunteers have, cannot.
    """
    try:
        ours, theirs = ipaddress.ip_address(own), ipaddress.ip_address(coordinator)
    except ValueError:
        return True
    if ours.is_loopback or ours.is_global:
        return False
    if ours.version != theirs.version:
        return True
    network = ipaddress.ip_network((theirs, SAME_NETWORK[theirs.version]), strict=False)
    return ours not in network


def addresses_towards(url: str) -> tuple[str, str]:
    """Our own address and the coordinator's on the way to a URL; empty where there is none."""
    parts = urlsplit(url)
    try:
        family, kind, protocol, _name, target = socket.getaddrinfo(
            parts.hostname, parts.port or (443 if parts.scheme == "https" else 80), type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)  # of UDP: nothing is sent
            return str(probe.getsockname()[0]), str(target[0])
    except OSError:
        return "", ""


def plan(run: RunFile, user: str, *, verified: bool, client_mode: bool) -> list[str]:
    """The few lines that tell a volunteer what is going to happen."""
    purpose = run.description.strip()
    sources = ", ".join(source.name for source in run.data.train)
    lines = [
        (_("Joining {run}: {purpose}") if purpose else _("Joining {run}.")).format(run=run.name, purpose=purpose),
        _("The model is {kind} of {parameters} parameters; it learns {language} from {sources}.").format(
            kind=_(run.model.kind),
            parameters=_count(sum(tensor_sizes(run))),
            language=Language(current()).name_of(run.language),
            sources=sources,
        ),
        _("The leaderboard calls you {user}.").format(user=user)
        if verified
        else _(
            "The leaderboard calls you {user}, unverified; to have it verified, set HF_TOKEN to a token without "
            "permissions and leave out --name."
        ).format(user=user),
        _(
            "Everybody can see your name, device, figures and hours on the run's pages; other peers see your address "
            "and gradients as well. Your files stay on this machine."
        ),
        _("Leave at any moment with Ctrl-C: what you have contributed still counts."),
    ]
    if run.release is not None and (
        run.release.contributors == "all" or (verified and run.release.contributors != "none")
    ):
        named = (
            _("Your name and share will also stand in the model card of {repo} on the Hub.")
            if run.release.private
            else _("Your name and share will also stand in the public model card of {repo} on the Hub.")
        ).format(repo=run.release.repo)
        way_out = _("To stay out of it, press Ctrl-C and ask the organizer to leave your name out.")
        lines.insert(-1, f"{named} {way_out}")
    if client_mode:
        lines.insert(
            3,
            _(
                "Others probably cannot connect to this machine, as with most routers, so it trains in client mode. It "
                "helps with averaging if a connection becomes possible."
            ),
        )
    return lines


def disk_free(folder: Path) -> float:
    """Bytes free where a folder is, or will be."""
    return float(psutil.disk_usage(str(existing_parent(folder))).free)


def existing_parent(folder: Path) -> Path:
    """The folder itself, or the nearest above it that is there."""
    return next(parent for parent in (folder.absolute(), *folder.absolute().parents) if _can_be_seen(parent))


def _can_be_seen(folder: Path) -> bool:
    with contextlib.suppress(OSError):  # another user's
        return folder.exists()
    return False


def size(amount: float) -> str:
    """Bytes for people."""
    return f"{amount / GB:.1f} GB" if amount >= 0.95 * GB else f"{amount / MB:.0f} MB"


def _count(number: int) -> str:
    if number < 1e9:
        return _("{n} million").format(n=f"{number / 1e6:.1f}")
    return _("{n} billion").format(n=f"{number / 1e9:.1f}")
