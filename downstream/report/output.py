"""Checks, before hours of work, that results can be written, and saves a fine-tuned model."""

import json
import os
from pathlib import Path

from downstream.comparison import Tuned
from downstream.errors import ModelError
from downstream.heads import save
from downstream.models import CONFIG
from downstream.tasks.task import Task
from swarm.errors import StorageError
from swarm.files import whole_directory


def check_file(path: Path) -> None:
    """Refuse a place where no file can be written.

    Raises:
        StorageError: it is a folder, or cannot be written.
    """
    if path.is_dir():
        raise StorageError(f"{path}: a folder, not a file; give a file's name")
    _check_writable(path)


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
    if folder.is_file():
        raise ModelError(f"{folder}: a file is in the place of the model's folder; give a new folder with --out")
    if folder.is_dir() and any(folder.iterdir()) and not _is_fine_tuned(folder, task):
        raise ModelError(
            f"{folder}: holds something other than a model fine-tuned for {task.name}; give a new folder with --out"
        )
    _check_writable(folder)


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


def _check_writable(path: Path) -> None:
    parent = path.absolute().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise StorageError(f"{path}: {parent} cannot be written; choose another folder")
