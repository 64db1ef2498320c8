"""Checkpoints on disk: their files, where the run was, and whether they are whole. Reads no tensors."""

import contextlib
import json
import logging
import math
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from safetensors import SafetensorError, safe_open

from coordinator.checkpoints.checksums import read_sums
from swarm.errors import SahajError, in_a_line

logger = logging.getLogger(__name__)

MODEL = "model.safetensors"
OPTIMIZER = "optimizer.pt"
STATE = "trainer_state.json"
RUN = "run.yaml"
CONFIG = "config.json"
_NAME = re.compile(r"checkpoint-(\d+)")


class CheckpointError(SahajError):
    """A folder is not a checkpoint, a file of it is broken, or it does not fit the model."""

    exit_status = 8


@dataclass(frozen=True)
class TrainerState:
    """Where a run was when a checkpoint was saved.

    `samples` went into all global steps so far, `eval_loss` is the held-out masked-LM loss in nats, `perplexity`
    its exponential, `saved_at` an ISO 8601 time with its zone, `fingerprint` the digest of what peers must agree on.
    `unigram_loss` is the loss of a table of token frequencies on the same masked positions, in nats, and
    `below_unigram` how far `eval_loss` is below it.
    `random_embeddings` says that the run file's `model.embeddings` could not be heeded: trainers alone have the text.
    Scores are None where nothing was held out, or the coordinator had to leave before it was evaluated.
    """

    run: str
    step: int
    samples: int
    eval_loss: float | None
    saved_at: str
    fingerprint: str
    software: str
    perplexity: float | None = None
    sentence_order_accuracy: float | None = None  # from 0 to 1
    unigram_loss: float | None = None
    below_unigram: float | None = None
    random_embeddings: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint on disk."""

    path: Path
    step: int
    state: TrainerState


def list_checkpoints(folder: Path) -> list[Checkpoint]:
    """Whole checkpoints in `folder`, oldest first; a broken one is left out with one line in the log."""
    found = []
    for step, path in named_checkpoints(folder):
        with logged_if_broken(path):
            found.append(Checkpoint(path, step, check(path)))
    return found


def whole_checkpoint(folder: Path, step: int) -> Checkpoint:
    """The whole checkpoint of a global step.

    Raises:
        CheckpointError: there is none; it names those there are.
    """
    there = {one.step: one for one in list_checkpoints(folder)}
    if step not in there:
        names = ", ".join(map(str, there)) or "none"
        raise CheckpointError(f"there is no whole checkpoint of global step {step}; there are: {names}")
    return there[step]


def newest_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest whole checkpoint in `folder`, if there is one."""
    return max(list_checkpoints(folder), key=lambda checkpoint: checkpoint.step, default=None)


def read_state(path: Path) -> TrainerState:
    """The `trainer_state.json` of a checkpoint.

    Raises:
        CheckpointError: the folder is not a checkpoint or the file is broken.
    """
    if not (path / STATE).is_file():
        raise CheckpointError(f"{path} is not a checkpoint: it has no {STATE}; give a checkpoint-<step> folder")
    try:
        content = json.loads((path / STATE).read_text(encoding="utf-8"))
        known = {one.name for one in fields(TrainerState)}  # a newer version may say more
        return TrainerState(**{name: value for name, value in content.items() if name in known})
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path / STATE} is broken ({type(error).__name__}: {error})") from error


def check(path: Path) -> TrainerState:
    """The state of a checkpoint whose files are all there; `load_checkpoint` compares them with their sums.

    Raises:
        CheckpointError: a file is missing, one with tensors is cut short, or its state or the list of files is broken.
    """
    state = read_state(path)
    try:
        for file in (path / name for name in read_sums(path)):
            if file.suffix == ".safetensors":
                with safe_open(file, "numpy"):  # its header says how long it is
                    pass
            elif not (zipfile.is_zipfile(file) if file.name == OPTIMIZER else file.is_file()):
                raise ValueError(f"{file.name} is missing or cut short")
    except (OSError, SafetensorError, ValueError) as error:
        raise broken(path, error) from error
    return state


def read_size(path: Path) -> tuple[int, int]:
    """Parameters of a checkpoint's model, and tokens of its vocabulary; its tensors stay on the disk.

    Raises:
        CheckpointError: a file of it is broken.
    """
    try:
        vocabulary = int(json.loads((path / CONFIG).read_text(encoding="utf-8"))["vocab_size"])
        with safe_open(path / MODEL, "numpy") as tensors:
            parameters = sum(math.prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118
    except (OSError, SafetensorError, ValueError, TypeError, KeyError) as error:
        raise broken(path, error) from error
    return parameters, vocabulary


def broken(path: Path, error: BaseException) -> CheckpointError:
    """The error for a checkpoint with a file that cannot be read."""
    what = f"{type(error).__name__}: {in_a_line(error)}"
    return CheckpointError(f"{path} is broken ({what}); remove it or use an older one")


@contextlib.contextmanager
def logged_if_broken(path: Path) -> Iterator[None]:
    """Log in one line that a checkpoint is broken, unless it was removed meanwhile, and go on after the block."""
    try:
        yield
    except CheckpointError as error:
        if path.exists():
            logger.warning("skipped: %s", error)


def named_checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """Folders with the name of a checkpoint, whole or not, by their global steps, oldest first."""
    named = ((_NAME.fullmatch(path.name), path) for path in (folder.iterdir() if folder.is_dir() else ()))
    return sorted((int(match.group(1)), path) for match, path in named if match and path.is_dir())
