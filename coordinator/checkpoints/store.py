"""Saves and loads checkpoints: `checkpoint-<step>` folders that Transformers loads, each of them whole or absent.

A checkpoint holds `config.json` and `model.safetensors`, the tokenizer's files, `optimizer.pt`,
`run.yaml` and `trainer_state.json`. If the run has experts there is `mixture.safetensors`, with their settings.
"""

import io
import json
import pickle
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from coordinator.checkpoints.checkpoint import (
    CONFIG,
    MODEL,
    OPTIMIZER,
    RUN,
    STATE,
    CheckpointError,
    TrainerState,
    broken,
    list_checkpoints,
    logged_if_broken,
    read_state,
)
from coordinator.checkpoints.checksums import check_sums, write_sums
from experts.file_names import MIXTURE
from experts.layer import released_term
from swarm.errors import StorageError
from swarm.files import remove_partials, whole_directory
from swarm.logging.logs import silence_hugging_face
from swarm.run_file import RunFile, dump_run, load_run
from swarm.run_file.fingerprint import Fingerprint, differences, fingerprint
from tokenizer.loading import read_tokenizer, tokenizer_digest

# what the readers of tensors raise when a file is cut short, garbled or of another kind
_UNREADABLE = (
    EOFError,
    OSError,
    RuntimeError,
    SafetensorError,
    ValueError,
    pickle.UnpicklingError,
)


@dataclass(frozen=True)
class LoadedCheckpoint:
    """A checkpoint's content, on the CPU; of tensors that share memory in the model, only one."""

    model_state: dict[str, Tensor]
    optimizer_state: dict[str, Any]
    trainer_state: TrainerState


def save_checkpoint(
    folder: Path,
    *,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    optimizer_state: Mapping[str, Any],
    run: RunFile,
    state: TrainerState,
) -> Path:
    """Write `folder/checkpoint-<step>`, read it back, and only then give it its name.

    Model and optimizer must not change meanwhile. `folder` is for checkpoints alone: what a crash has left in it is
    removed first, and a checkpoint of the same step is replaced.

    Raises:
        StorageError: the disk is full, the folder cannot be written, or what was read back differs.
    """
    remove_partials(folder)
    path = folder / f"checkpoint-{state.step}"
    with whole_directory(path) as partial:
        # through memory: torch's own writer does not say that the disk is full
        archive = io.BytesIO()
        torch.save(dict(optimizer_state), archive)
        _check_room(partial, path, model, archive.tell())
        silence_hugging_face()
        mixture, trunk = released_term.split(model.state_dict())
        model.save_pretrained(partial, state_dict=trunk)
        if run.experts is not None:
            (partial / MIXTURE).write_bytes(released_term.to_bytes(mixture, run.experts))
        _name_public_architecture(model, partial)
        tokenizer.save_pretrained(partial)
        (partial / OPTIMIZER).write_bytes(archive.getbuffer())
        (partial / RUN).write_text(dump_run(run), encoding="utf-8")
        (partial / STATE).write_text(json.dumps(asdict(state), indent=2) + "\n", encoding="utf-8")
        write_sums(partial)
        _read_back(partial, path, model)
    return path


def load_checkpoint(path: Path) -> LoadedCheckpoint:
    """Read a checkpoint; only tensors and plain values, never code.

    Raises:
        CheckpointError: the folder is not a checkpoint or a file of it is broken.
    """
    state = read_state(path)
    try:
        check_sums(path)
        optimizer_state = torch.load(path / OPTIMIZER, map_location="cpu", weights_only=True)
        model_state = load_file(path / MODEL)
        if (path / MIXTURE).exists():
            model_state |= load_file(path / MIXTURE)
    except _UNREADABLE as error:
        raise broken(path, error) from error
    return LoadedCheckpoint(model_state, optimizer_state, state)


def load_newest_checkpoint(folder: Path) -> LoadedCheckpoint | None:
    """The newest checkpoint that can be read; a broken one is skipped with one line in the log."""
    for checkpoint in reversed(list_checkpoints(folder)):
        with logged_if_broken(checkpoint.path):
            return load_checkpoint(checkpoint.path)
    return None


def newest_that_fits(folder: Path, ours: Fingerprint) -> LoadedCheckpoint | None:
    """The newest checkpoint in a folder, if there is one.

    Raises:
        CheckpointError: it belongs to a run with another model, tokenizer, optimizer or averaging.
    """
    newest = load_newest_checkpoint(folder)
    if newest is not None and newest.trainer_state.fingerprint != ours.digest:
        path = folder / f"checkpoint-{newest.trainer_state.step}"
        theirs = fingerprint(
            load_run(path / RUN),
            tokenizer_digest(read_tokenizer(str(path))),
            newest.optimizer_state.get("version", 1),  # the first one did not say which it was
        )
        raise CheckpointError(
            f"{path}: belongs to a run with other settings ({'; '.join(differences(ours, theirs)) or 'unknown'}); "
            "choose another state folder with --state FOLDER, or undo the change"
        )
    return newest


def restore_model(model: PreTrainedModel, model_state: Mapping[str, Tensor]) -> None:
    """Load a checkpoint's tensors into a model, in place.

    Raises:
        CheckpointError: a tensor is missing, unknown, or of another shape.
    """
    misfits = _misfits(model.state_dict(), model_state)
    if misfits:
        raise CheckpointError(
            f"the checkpoint does not fit the model of the run file: {misfits[0]} is missing, unknown or of "
            f"another shape ({len(misfits)} such tensors); use the run.yaml beside the checkpoint"
        )
    model.load_state_dict(dict(model_state), strict=False)


def _check_room(partial: Path, path: Path, model: PreTrainedModel, optimizer: int) -> None:
    """Refuse what cannot fit: log and ledger would find the disk full meanwhile, at each try.

    Args:
        optimizer: bytes of its state.
    """
    tensors = {one.data_ptr(): one.nbytes for one in model.state_dict().values()}  # those that share memory count once
    needed, disk = sum(tensors.values()) + optimizer, shutil.disk_usage(partial)
    free = disk.free if disk.total else needed  # some file systems do not tell
    if free < needed:
        raise StorageError(
            f"{path}: could not be saved, it takes {needed / 1e6:,.0f} MB and {free / 1e6:,.0f} MB are free; free some "
            "space"
        )


def _read_back(partial: Path, path: Path, model: PreTrainedModel) -> None:
    """Compare the files in `partial`, which will be `path`, with what they were written from."""
    try:
        loaded = load_checkpoint(partial)
    except CheckpointError as error:
        raise StorageError(f"{path}: could not be read back after saving ({error}); check the disk") from error
    own, saved = model.state_dict(), loaded.model_state
    changed = [name for name in own.keys() & saved.keys() if not torch.equal(_bytes(own[name]), _bytes(saved[name]))]
    if wrong := _misfits(own, saved) or changed:
        raise StorageError(f"{path}: {wrong[0]} was not read back as it was saved; check the disk")


def _misfits(own: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> list[str]:
    """Tensors that a model and a checkpoint do not share; one of several that share memory is enough."""
    present = {own[name].data_ptr() for name in own.keys() & saved.keys()}
    missing = {name for name in own.keys() - saved.keys() if own[name].data_ptr() not in present}
    different = {name for name in own.keys() & saved.keys() if own[name].shape != saved[name].shape}
    return sorted(missing | different | (saved.keys() - own.keys()))


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def _name_public_architecture(model: PreTrainedModel, folder: Path) -> None:
    """Let `config.json` name the Transformers class that the model extends, which every reader has."""
    public = next(kind for kind in type(model).__mro__ if kind.__module__.startswith("transformers."))
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    config["architectures"] = [public.__name__]
    (folder / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
