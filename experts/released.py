"""`experts.safetensors`: the experts of a checkpoint, to be used in one process.

It holds parameters alone, as `3.5.into.weight`, and in its header the settings and each expert's version. What training
needs beside them is in the states on hosts and on the coordinator.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file

from experts.expert import Expert
from experts.grid import Grid, Uid


@dataclass(frozen=True)
class ReleasedExperts:
    """What is in a file; a grid may have more experts than that."""

    grid: Grid
    width: int
    hidden: int
    experts: Mapping[Uid, Expert]
    steps: Mapping[Uid, int]  # of each expert, as its version


def write_experts(released: ReleasedExperts, path: Path) -> None:
    """Write the file; it is not whole before the end."""
    tensors = {
        f"{_name(uid)}.{key}": parameter.detach()
        for uid, expert in released.experts.items()
        for key, parameter in expert.named_parameters()
    }
    steps = {_name(uid): released.steps[uid] for uid in released.experts}
    about = {"grid": released.grid, "width": released.width, "hidden": released.hidden, "steps": steps}
    save_file(tensors, path, metadata={key: json.dumps(value) for key, value in about.items()})


def steps_of(path: Path) -> dict[Uid, int]:
    """The steps of each expert in a file, as versions; its tensors stay on the disk.

    Raises:
        OSError, SafetensorError, ValueError, KeyError: it is no such file.
    """
    with safe_open(path, "pt") as file:
        steps: dict[str, int] = json.loads((file.metadata() or {})["steps"])
    return {_uid(name): count for name, count in steps.items()}


def load_experts(path: Path) -> ReleasedExperts:
    """What a file holds; with `LocalExperts` the experts answer a `MixtureOfExperts` in the same process.

    Raises:
        OSError, SafetensorError, ValueError, KeyError: it is no such file.
        RuntimeError: it does not hold what its header says.
    """
    experts: dict[Uid, Expert] = {}
    with safe_open(path, "pt") as file:
        about = {key: json.loads(value) for key, value in (file.metadata() or {}).items()}
        for name in about["steps"]:
            expert = Expert(about["width"], about["hidden"])
            expert.load_state_dict({key: file.get_tensor(f"{name}.{key}") for key in expert.state_dict()})
            experts[_uid(name)] = expert.eval()
    steps = {_uid(name): count for name, count in about["steps"].items()}
    return ReleasedExperts(tuple(about["grid"]), about["width"], about["hidden"], experts, steps)


def _name(uid: Uid) -> str:
    return ".".join(map(str, uid))


def _uid(name: str) -> Uid:
    return tuple(map(int, name.split(".")))
