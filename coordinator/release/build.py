"""Builds a release: a checkpoint's files, a picture of the loss curve, and the model card."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from safetensors import SafetensorError

from coordinator.checkpoints.checkpoint import Checkpoint, CheckpointError, TrainerState, broken, read_size
from coordinator.checkpoints.checksums import check_sums
from coordinator.release.card import card
from coordinator.release.curve import picture
from coordinator.release.facts import Facts, Record
from coordinator.release.publish import CARD, Release, message
from experts.file_names import EXPERTS
from experts.released import steps_of
from swarm.run_file import MASK, RunFile


def make_release(
    run: RunFile,
    checkpoint: Checkpoint,
    repo: str,
    *,
    record: Record | None,
    also: Mapping[str, bytes],
    tags: Iterable[str],
) -> Release:
    """The release of a checkpoint.

    Args:
        record: what the ledger says about the run, if there is one.
        also: further files of the release, by name.

    Raises:
        CheckpointError: the checkpoint is missing, or a file of it is not what was saved.
    """
    state = checkpoint.state
    saved = _files_of(checkpoint.path)
    parameters, vocabulary = read_size(checkpoint.path)
    pictures = picture(record, run.name) if record else {}
    facts = Facts(
        run=run,
        state=state,
        parameters=parameters,
        vocabulary=vocabulary,
        repo=repo,
        record=record,
        curve=next(iter(pictures), None),
        made=tuple(also),
        mask=_mask_of(checkpoint.path),
        experts=_experts_in(checkpoint.path) if EXPERTS in saved else 0,
    )
    files: dict[str, Path | bytes] = {**saved, **pictures, **also, CARD: card(facts).encode()}
    description = f"{state.samples:,} samples so far. Saved at {state.saved_at} by {state.software}."
    return Release(state, files, message(state), description, tuple(tags))


def first_card(run: RunFile, repo: str) -> str:
    """A card without figures: the Hub refuses it for the same mistakes in the run file as later ones."""
    no_state = TrainerState(run.name, 0, 0, None, "2000-01-01", "", "")
    return card(Facts(run=run, state=no_state, parameters=0, vocabulary=0, repo=repo, record=None))


def _mask_of(checkpoint: Path) -> str:
    """The mask token, which differs between tokenizers."""
    content = json.loads((checkpoint / "tokenizer_config.json").read_text(encoding="utf-8"))
    mask = content.get("mask_token", MASK)
    return str(mask["content"] if isinstance(mask, dict) else mask)


def _experts_in(checkpoint: Path) -> int:
    try:
        return len(steps_of(checkpoint / EXPERTS))
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise broken(checkpoint, error) from error


def _files_of(checkpoint: Path) -> dict[str, Path]:
    if not checkpoint.is_dir():
        raise CheckpointError(f"{checkpoint}: no such checkpoint; give a checkpoint-<step> folder")
    try:
        check_sums(checkpoint)
        return {path.name: path for path in sorted(checkpoint.iterdir()) if path.is_file()}
    except (OSError, ValueError) as error:
        raise broken(checkpoint, error) from error
