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


def unpack(path: Path, settings: ExpertSettings, files: StateFiles, versions: Mapping[Uid, int] | None = None) -> None:
    """Make states of a file's experts, where those that are kept have fewer steps; their moments begin anew.

    Args:
        versions: that states get, by default those in the file; an expert that the file lacks is as at its beginning.

    Raises:
        OSError, SafetensorError, ValueError, KeyError, RuntimeError: it is no such file.
        StorageError: a state cannot be written; the next call makes the rest.
    """
    kept, wanted = files.versions, steps_of(path) if versions is None else versions
    missing = {uid: version for uid, version in wanted.items() if kept.get(uid, -1) < version}
    then = load_experts(path).experts if missing else {}
    for uid, version in missing.items():
        expert = TrainedExpert(uid, settings, version)
        if uid in then:
            expert.network.load_state_dict(then[uid].state_dict())
        files.write(uid, version, to_bytes(expert))
