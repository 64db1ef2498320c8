"""Checks, before hours of work, that results and a fine-tuned model can be written."""

import json
from pathlib import Path

from downstream.errors import ModelError
from downstream.models import CONFIG
from downstream.tasks.task import Task
from experts.file_names import EXPERTS, MIXTURE
from swarm.errors import StorageError
from swarm.files import check_writable, foreign_entry, storage_errors
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


def _is_fine_tuned(folder: Path, task: Task) -> bool:
    try:
        architecture = json.loads((folder / CONFIG).read_text(encoding="utf-8"))["architectures"][0]
    except (OSError, ValueError, LookupError, TypeError):
        return False
    return str(architecture).endswith(task.head)
