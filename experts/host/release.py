"""The states of experts as the file of a checkpoint, and that file as states again."""

from collections.abc import Collection, Mapping
from pathlib import Path

from experts.expert import Expert
from experts.grid import Uid
from experts.host.files import StateFiles
from experts.host.settings import ExpertSettings
from experts.host.state import to_bytes
from experts.host.trained_expert import TrainedExpert
from experts.released import ReleasedExperts, load_experts, steps_of, write_experts
from experts.versions import rolled_back


def pack(files: StateFiles, settings: ExpertSettings, path: Path) -> int:
    """Write the experts of which there are states; returns how many. Without any, nothing is written.

    All of them are in memory meanwhile, 4 bytes a parameter.
    """
    experts: dict[Uid, Expert] = {}
    steps: dict[Uid, int] = {}
    for uid in sorted(files.versions):
        trained = files.read(uid)
        if trained is not None:
            experts[uid], steps[uid] = trained.network, trained.version
    if experts:
        write_experts(ReleasedExperts(settings.grid, settings.width, settings.hidden, experts, steps), path)
    return len(experts)


def unpack(path: Path, settings: ExpertSettings, files: StateFiles) -> None:
    """Make states of the experts that have more steps in a file than among the states; their moments begin anew.

    Raises:
        OSError, SafetensorError, ValueError, KeyError, RuntimeError: it is no such file.
        StorageError: a state cannot be written.
    """
    kept, steps = files.versions, steps_of(path)
    newer = {uid for uid, count in steps.items() if count > kept.get(uid, 0)}
    if not newer:
        return
    for uid, expert in load_experts(path).experts.items():
        if uid in newer:
            trained = TrainedExpert(uid, settings, steps[uid])
            trained.network.load_state_dict(expert.state_dict())
            files.write(uid, trained.version, to_bytes(trained))


def older_versions(path: Path, files: StateFiles, served: Collection[Uid]) -> dict[Uid, int]:
    """The versions that states of a file's experts need to be newer than any other, and those of experts it lacks.

    Args:
        served: experts that hosts have, of which there may be no state among the files yet.

    Raises:
        OSError, SafetensorError, ValueError, KeyError: it is no such file.
    """
    kept, then = files.versions, steps_of(path)
    uids = sorted(kept.keys() | then.keys() | set(served))
    return {uid: rolled_back(then.get(uid, 0), max(kept.get(uid, 0), then.get(uid, 0))) for uid in uids}


def roll_back(path: Path, settings: ExpertSettings, files: StateFiles, versions: Mapping[Uid, int]) -> None:
    """Make the states that are missing of these versions: of a file's experts, and as they began of those it lacks.

    Their moments begin anew.

    Raises:
        OSError, SafetensorError, ValueError, KeyError, RuntimeError: it is no such file.
        StorageError: a state cannot be written; the next call makes the rest.
    """
    kept, then = files.versions, load_experts(path).experts
    for uid, version in versions.items():
        if kept.get(uid, -1) < version:
            expert = TrainedExpert(uid, settings, version)
            if uid in then:
                expert.network.load_state_dict(then[uid].state_dict())
            files.write(uid, version, to_bytes(expert))
