"""Which checkpoints a folder holds, which of them are whole, and which may go. Reads no tensors."""

import contextlib
import json
import logging
import math
import os
import re
import shutil
import zipfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path

import yaml
from safetensors import SafetensorError, safe_open

from swarm.errors import SahajError, in_a_line
from swarm.files import PARTIAL

logger = logging.getLogger(__name__)

MODEL = "model.safetensors"
OPTIMIZER = "optimizer.pt"
STATE = "trainer_state.json"
RUN = "run.yaml"
CONFIG = "config.json"
_JSON = (CONFIG, "tokenizer.json", "tokenizer_config.json", STATE)
_NAME = re.compile(r"checkpoint-(\d+)")
# all that the readers of these files raise when one is short or garbled
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


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint on disk."""

    path: Path
    step: int
    state: TrainerState


def list_checkpoints(folder: Path) -> list[Checkpoint]:
    """Whole checkpoints in `folder`, oldest first; a broken one is left out with one line in the log.

    Looks at every file's structure, which finds a file that is cut short, but does not read all tensors.
    """
    found = []
    for step, path in _named_checkpoints(folder):
        with logged_if_broken():
            found.append(Checkpoint(path, step, check(path)))
    return found


def newest_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest whole checkpoint in `folder`, if there is one."""
    return max(list_checkpoints(folder), key=lambda checkpoint: checkpoint.step, default=None)


def prune(folder: Path, newest: int, every: int | None = None, spared: Collection[Path] = ()) -> list[Path]:
    """Remove the whole checkpoints that `checkpoints_to_remove` names, but `spared` ones; return what was removed.

    Broken checkpoints do not count as kept; those older than the `newest` whole ones go too.
    """
    losses = {checkpoint.step: checkpoint.state.eval_loss for checkpoint in list_checkpoints(folder)}
    kept = set(losses) - set(checkpoints_to_remove(losses, newest, every))
    recent = min(sorted(losses)[-newest:], default=0)
    paths = [
        path for step, path in _named_checkpoints(folder) if step < recent and step not in kept and path not in spared
    ]
    for path in paths:
        # a checkpoint that is half gone must not keep its name; a sweep finds it under this one
        doomed = folder / f".{path.name}{PARTIAL}removed-{os.getpid()}"
        path.replace(doomed)
        shutil.rmtree(doomed, ignore_errors=True)
    return paths


def checkpoints_to_remove(losses: Mapping[int, float | None], newest: int, every: int | None = None) -> list[int]:
    """Which checkpoints may go, oldest first.

    Kept are the `newest` ones, the best by held-out loss, and, with `every`, the first one at or after each multiple of
    so many global steps.

    Args:
        losses: held-out loss in nats by global step, None where there is none.
    """
    if newest < 1:
        raise ValueError(f"at least 1 checkpoint has to be kept, got {newest}")
    steps = sorted(losses)
    kept = set(steps[-newest:])
    scored = {step: loss for step, loss in losses.items() if loss is not None and math.isfinite(loss)}
    if scored:
        kept.add(min(scored, key=lambda step: (scored[step], -step)))
    if every is not None:
        milestones = {step // every: step for step in reversed(steps)}  # the first of each span comes last
        kept |= {step for span, step in milestones.items() if span > 0}
    return [step for step in steps if step not in kept]


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
    """The state of a checkpoint all of whose files are there and end where they should.

    Raises:
        CheckpointError: one of them does not.
    """
    state = read_state(path)
    try:
        for name in _JSON:
            json.loads((path / name).read_text(encoding="utf-8"))
        if not isinstance(yaml.safe_load((path / RUN).read_text(encoding="utf-8")), dict):
            raise ValueError(f"{RUN} is empty")
        with safe_open(path / MODEL, "numpy"):
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
    """The one line about a checkpoint one of whose files cannot be read."""
    what = f"{type(error).__name__}: {in_a_line(error)}"
    return CheckpointError(f"{path} is broken ({what}); remove it or use an older one")


@contextlib.contextmanager
def logged_if_broken() -> Iterator[None]:
    """Say in one line of the log that a checkpoint is broken, and go on after the block."""
    try:
        yield
    except CheckpointError as error:
        logger.warning("skipped: %s", error)


def _named_checkpoints(folder: Path) -> list[tuple[int, Path]]:
    named = ((_NAME.fullmatch(path.name), path) for path in (folder.iterdir() if folder.is_dir() else ()))
    return sorted((int(match.group(1)), path) for match, path in named if match and path.is_dir())
