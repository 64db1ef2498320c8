"""`experts.safetensors`: the experts of a checkpoint, to be used in one process.

It holds parameters alone, as `3.5.into.weight`, and in its header the settings and each expert's version. What training
needs beside them is in the states on hosts and on the coordinator.
"""

import json
from collections.abc import Collection
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from experts.expert import Expert
from experts.grid import Uid
from experts.host.files import StateFiles
from experts.host.settings import ExpertSettings
from experts.host.state import to_bytes
from experts.host.trained_expert import TrainedExpert
from experts.versions import rolled_back


def pack(files: StateFiles, settings: ExpertSettings, path: Path) -> int:
    """Write the experts of which there are states; returns how many. Without any, nothing is written.

    All of them are in memory meanwhile, 4 bytes a parameter.
    """
    tensors: dict[str, Tensor] = {}
    steps: dict[str, int] = {}
    for uid in sorted(files.versions):
        expert = files.read(uid)
        if expert is not None:
            name = _name(uid)
            tensors |= {f"{name}.{key}": one.detach() for key, one in expert.network.named_parameters()}
            steps[name] = expert.version
    if steps:
        about = {"grid": settings.grid, "width": settings.width, "hidden": settings.hidden, "steps": steps}
        save_file(tensors, path, metadata={key: json.dumps(value) for key, value in about.items()})
    return len(steps)


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
    for uid, expert in load_experts(path).items():
        if uid in newer:
            trained = TrainedExpert(uid, settings, steps[uid])
            trained.network.load_state_dict(expert.state_dict())
            files.write(uid, trained.version, to_bytes(trained))


def roll_back(path: Path, settings: ExpertSettings, files: StateFiles, served: Collection[Uid]) -> int:
    """Make states of a file's experts that are newer than any other, and of experts that it lacks as they began.

    Their moments begin anew.

    Args:
        served: experts that hosts have, of which there may be no state among the files yet.

    Returns:
        How many were made.

    Raises:
        OSError, SafetensorError, ValueError, KeyError, RuntimeError: it is no such file.
        StorageError: a state cannot be written.
    """
    kept, then, experts = files.versions, steps_of(path), load_experts(path)
    uids = sorted(kept.keys() | then.keys() | set(served))
    for uid in uids:
        newest = max(kept.get(uid, 0), then.get(uid, 0))
        expert = TrainedExpert(uid, settings, rolled_back(then.get(uid, 0), newest))
        if uid in experts:
            expert.network.load_state_dict(experts[uid].state_dict())
        files.write(uid, expert.version, to_bytes(expert))
    return len(uids)


def steps_of(path: Path) -> dict[Uid, int]:
    """The steps of each expert in a file, as versions; its tensors stay on the disk.

    Raises:
        OSError, SafetensorError, ValueError, KeyError: it is no such file.
    """
    with safe_open(path, "pt") as file:
        steps: dict[str, int] = json.loads(file.metadata()["steps"])
    return {_uid(name): count for name, count in steps.items()}


def load_experts(path: Path) -> dict[Uid, Expert]:
    """The experts of a file; with `LocalExperts` they answer a `MixtureOfExperts` in the same process.

    Raises:
        OSError, SafetensorError, ValueError, KeyError: it is no such file.
        RuntimeError: it does not hold what its header says.
    """
    experts: dict[Uid, Expert] = {}
    with safe_open(path, "pt") as file:
        about = {key: json.loads(value) for key, value in file.metadata().items()}
        for name in about["steps"]:
            expert = Expert(about["width"], about["hidden"])
            expert.load_state_dict({key: file.get_tensor(f"{name}.{key}") for key in expert.state_dict()})
            experts[_uid(name)] = expert.eval()
    return experts


def _name(uid: Uid) -> str:
    return ".".join(map(str, uid))


def _uid(name: str) -> Uid:
    return tuple(map(int, name.split(".")))
