"""Checks, before hours of work, that results can be written, and saves a fine-tuned model."""

import json
from pathlib import Path

from downstream.comparison import Tuned
from downstream.errors import ModelError
from downstream.heads import save
from downstream.models import CONFIG
from downstream.tasks.task import Task
from experts.file_names import EXPERTS, MIXTURE
from swarm.errors import StorageError
from swarm.files import check_writable, foreign_entry, storage_errors, whole_directory
from tokenizer.loading import SAVED

WEIGHTS = ("model.safetensors", "model-*-of-*.safetensors", "model.safetensors.index.json")


def check_file(path: Path) -> None:
    """Refuse a place where no file can be written.

    Raises:
        StorageError: it is a folder, or cannot be written.
    """
    with storage_errors(path):
        is_folder = path.is_dir()
    if is_folder:
        raise StorageError(f"{path}: a folder, not a file; give a file's name")
    check_writable(path)


def check_picture(path: Path) -> None:
    """Refuse a kind of picture that cannot be drawn, or a place where it cannot be written.

    Raises:
        StorageError: with the kinds that there are.
    """
    if path.suffix.lower() not in (".svg", ".png"):
        raise StorageError(f"{path}: unknown kind of picture {path.suffix!r}; give FILE.svg or FILE.png")
    check_file(path)


def check_model_folder(folder: Path, task: Task) -> None:
    """Refuse to replace anything but a model that was fine-tuned for this task; above all the pretrained model.

    Raises:
        ModelError: something else is there.
        StorageError: it cannot be written.
    """
    foreign = foreign_entry(folder, (CONFIG, *WEIGHTS, MIXTURE, EXPERTS, *SAVED))
    if foreign is None and not _is_fine_tuned(folder, task):
        foreign = foreign_entry(folder, ())
    if foreign is not None:
        raise ModelError(
            f"{folder}: holds something other than a model fine-tuned for {task.name} ({foreign}), which would be "
            "deleted; give a new folder with --out"
        )
    check_writable(folder)


def save_model(tuned: Tuned, folder: Path) -> None:
    """Write a folder that `transformers.pipeline` loads, and the model's experts if it has any; whole or not at all.

    Raises:
        StorageError: the disk is full or the folder cannot be written.
    """
    with whole_directory(folder.absolute()) as partial:
        save(tuned.model, tuned.reader.tokenizer, partial)


def _is_fine_tuned(folder: Path, task: Task) -> bool:
    try:
        architecture = json.loads((folder / CONFIG).read_text(encoding="utf-8"))["architectures"][0]
    except (OSError, ValueError, LookupError, TypeError):
        return False
    return str(architecture).endswith(task.head)
