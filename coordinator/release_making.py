"""Putting a release together: a checkpoint's files, the picture of the curve, and the model card."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from coordinator.checkpoint_folder import Checkpoint, CheckpointError, read_size
from coordinator.release import Release, message
from coordinator.release_card import card
from coordinator.release_curve import picture
from coordinator.release_facts import Facts, Record
from swarm.run_file import MASK, RunFile

CARD = "README.md"


def make_release(
    run: RunFile,
    checkpoint: Checkpoint,
    repo: str,
    *,
    record: Record | None,
    also: Mapping[str, bytes],
    tags: Iterable[str],
) -> Release:
    """Everything that goes to the Hub with a checkpoint.

    Args:
        record: what the ledger knows of the run, if there is one.
        also: further files of the release, by name.

    Raises:
        CheckpointError: the checkpoint is gone, or a file of it is broken.
    """
    state = checkpoint.state
    parameters, vocabulary = read_size(checkpoint.path)
    pictures = picture(record.curves, run.name) if record else {}
    facts = Facts(
        run=run,
        state=state,
        parameters=parameters,
        vocabulary=vocabulary,
        repo=repo,
        work=record.work if record else None,
        curve=next(iter(pictures), None),
        made=tuple(also),
        mask=_mask_of(checkpoint.path),
    )
    files: dict[str, Path | bytes] = dict(_files_of(checkpoint.path))
    files |= {**pictures, **also, CARD: card(facts).encode()}
    description = f"{state.samples:,} samples so far. Saved at {state.saved_at} by {state.software}."
    return Release(state, files, message(state), description, tuple(tags))


def _mask_of(checkpoint: Path) -> str:
    """A tokenizer that was not made by us may write a mask in another way."""
    content = json.loads((checkpoint / "tokenizer_config.json").read_text(encoding="utf-8"))
    mask = content.get("mask_token", MASK)
    return str(mask["content"] if isinstance(mask, dict) else mask)


def _files_of(checkpoint: Path) -> dict[str, Path]:
    try:
        return {path.name: path for path in sorted(checkpoint.iterdir()) if path.is_file()}
    except FileNotFoundError:
        raise CheckpointError(f"{checkpoint}: no such checkpoint; give a checkpoint-<step> folder") from None
