"""Checkpoints on disk: their files, where the run was, and whether they are whole. Reads no tensors."""

import contextlib
import json
import logging
import math
import os
import re
import zipfile
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from pathlib import Path

import yaml
from safetensors import SafetensorError, safe_open

from experts.file_names import MIXTURE
from swarm.errors import SahajError, in_a_line

logger = logging.getLogger(__name__)

MODEL = "model.safetensors"
OPTIMIZER = "optimizer.pt"
STATE = "trainer_state.json"
RUN = "run.yaml"
CONFIG = "config.json"
_JSON = (CONFIG, "tokenizer.json", "tokenizer_config.json", STATE)
_NAME = re.compile(r"checkpoint-(\d+)")
# what the readers of these files raise when one is cut short or garbled
_UNREADABLE = (OSError, SafetensorError, ValueError, yaml.YAMLError, zipfile.BadZipFile)


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
    """Whole checkpoints in `folder`, oldest first; a broken one is left out with one line in the log.

    Looks at every file's structure once, which finds a file that is cut short, but does not read all tensors.
    """
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
        # a newer version may say more, an older one less
        known = {field.name: content.get(field.name, field.default) for field in fields(TrainerState)}
        if missing := [name for name, value in known.items() if value is MISSING]:
            raise KeyError(missing[0])
        return TrainerState(**known)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"{path / STATE} is broken ({type(error).__name__}: {error})") from error


def check(path: Path) -> TrainerState:
    """The state of a checkpoint, after a look at the structure of each of its files; they are opened when they change.

    Raises:
        CheckpointError: a file is missing, or cut short.
    """
    try:
        with os.scandir(path) as found:
            stats = [(file.name, file.stat()) for file in found]
    except OSError as error:  # it was removed just now
        raise broken(path, error) from error
    return _check(path, frozenset((name, one.st_size, one.st_mtime_ns) for name, one in stats))


@lru_cache(maxsize=4096)  # an error is not kept
def _check(path: Path, files: frozenset[tuple[str, int, int]]) -> TrainerState:
    """`files` are the name, the size and the time of each: they tell whether any has changed."""
    state = read_state(path)
    try:
        for name in _JSON:
            json.loads((path / name).read_text(encoding="utf-8"))
        run = yaml.safe_load((path / RUN).read_text(encoding="utf-8"))
        if not isinstance(run, dict):
            raise ValueError(f"{RUN} is empty")
        for name in (MODEL, MIXTURE) if run.get("experts") else (MODEL,):
            with safe_open(path / name, "numpy"):
                pass
        with zipfile.ZipFile(path / OPTIMIZER):
            pass
    except _UNREADABLE as error:
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
    except (*_UNREADABLE, TypeError, KeyError) as error:
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
