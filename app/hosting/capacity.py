"""How many experts a machine takes. The figures are estimates, as those for trainers are."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import psutil

from app.join.machine_checks import DISK, PROGRAM, disk_free, size
from app.join.problems import JoinProblem, ProblemKind
from experts import grid
from experts.directory.records import MOST_EXPERTS
from experts.host.settings import ExpertSettings
from experts.host.state import longest_state

BYTES = 16  # of a parameter in memory: itself, its gradient, and Adam's two moments
SHARE = 0.5  # of the free memory that is taken unasked


@dataclass(frozen=True)
class Room:
    """What is free, in bytes; on the disk with what this host's own states take, which are replaced or removed."""

    memory: float
    disk: float


def states_folder(run_folder: Path, authority: bytes) -> Path:
    """A host's states, which are another folder for a run that was begun anew, with another authority's public key."""
    return run_folder / f"experts-{hashlib.sha256(authority).hexdigest()[:8]}"


def measure(peer_folder: Path, states: Path) -> Room:
    """Look at this machine, and at the disk of a host's folder, in which it may have served the run before.

    States for another authority stay where they are, and their room is not free: they may be the only copies.
    """
    own = sum(file.stat().st_size for file in states.glob("*") if file.is_file())
    return Room(float(psutil.virtual_memory().available), disk_free(peer_folder) + own)


def capacity(settings: ExpertSettings, room: Room, asked: int | None) -> int:
    """How many experts to take, those that are only copied included.

    Args:
        asked: by the volunteer; absent: as many as fit well, at most all.

    Raises:
        JoinProblem: there is no room for them.
    """
    of_each, of_file = BYTES * settings.parameters, longest_state(settings)
    memory, disk = max(0.0, room.memory - PROGRAM), max(0.0, room.disk - DISK)
    most = int(min(memory / of_each, disk / of_file))
    limit = min(grid.size(settings.grid), MOST_EXPERTS)
    if most < min(asked or 1, limit):
        raise JoinProblem(
            ProblemKind.MACHINE_TOO_SMALL,
            f"{size(room.memory)} of memory and {size(room.disk)} of disk are free: room for {most} experts, which "
            f"take {size(of_each)} and {size(of_file)} each beside the program's {size(PROGRAM)} and {size(DISK)}; "
            + (f"use --experts {most}" if most else "free some, or use a machine with more"),
        )
    fits_well = max(1, int(min(SHARE * memory / of_each, disk / of_file)))
    return min(asked or fits_well, limit)
