"""Which checkpoints are kept, and which are removed."""

import math
import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from coordinator.checkpoints.checkpoint import Checkpoint, named_checkpoints
from swarm.files import PARTIAL


def prune(
    folder: Path,
    counted: Iterable[Checkpoint],
    newest: int,
    every: int | None = None,
    spared: Collection[Path] = (),
) -> list[Path]:
    """Remove the checkpoints that `checkpoints_to_remove` names, except `spared` ones; return what was removed.

    Only the `counted` checkpoints of the folder count as kept. Others, which are broken or undone, go once they are
    older than the `newest` of those.
    """
    losses = {checkpoint.step: checkpoint.state.eval_loss for checkpoint in counted}
    kept = set(losses) - set(checkpoints_to_remove(losses, newest, every))
    recent = min(sorted(losses)[-newest:], default=0)
    paths = [
        path for step, path in named_checkpoints(folder) if step < recent and step not in kept and path not in spared
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
    steps = sorted(losses)
    kept = set(steps[-newest:])
    scored = {step: loss for step, loss in losses.items() if loss is not None and math.isfinite(loss)}
    if scored:
        kept.add(min(scored, key=lambda step: (scored[step], -step)))
    if every is not None:
        milestones = {step // every: step for step in reversed(steps)}  # the first of each span comes last
        kept |= {step for span, step in milestones.items() if span > 0}
    return [step for step in steps if step not in kept]
