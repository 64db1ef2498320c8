"""Finds the models that `--model` names: a folder, a folder of checkpoints, or a repository on the Hub."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from downstream.errors import ModelError
from downstream.tasks import TASKS
from downstream.tasks.task import Task
from swarm.errors import in_a_line
from swarm.files import lookup_errors
from swarm.secret_variables import hub_token
from tokenizer.loading import is_hub_name

CONFIG = "config.json"
STATE = "trainer_state.json"
# with either of them in the folder, or the index of one that is split into several
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
# without any of them Transformers makes a tokenizer of five tokens, in silence
_VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
# architectures with these ends have been fine-tuned for something
_HEADS = ("ForTokenClassification", "ForSequenceClassification", "ForQuestionAnswering", "ForMultipleChoice")


@dataclass(frozen=True)
class Model:
    """A model on this machine that has all its files. No tensor was read yet."""

    name: str
    """As it is shown."""
    folder: Path
    step: int | None
    """The global step of the run at which it was saved, where its `trainer_state.json` tells."""
    head: str | None
    """The end of its architecture's name, if it was fine-tuned: `ForTokenClassification`."""
    run: str | None = None
    """The name of the run that it is a checkpoint of, where its `trainer_state.json` tells."""

    @property
    def is_fine_tuned(self) -> bool:
        """Whether it has a head of its own for some task."""
        return self.head is not None


def find_models(name: str, *, newest_only: bool = False) -> list[Model]:
    """The models that a name stands for; of a folder of checkpoints all of them, the oldest first.

    Args:
        name: a folder, a folder that holds `checkpoint-<step>` folders, `owner/name` or `owner/name@revision`.
        newest_only: look at no older checkpoint, which may be damaged.

    Raises:
        ModelError: there is no such model, or it lacks a file.
    """
    with lookup_errors(name, ModelError):
        folder = Path(name).expanduser()
        if folder.is_dir():
            checkpoints = [] if (folder / CONFIG).is_file() else _checkpoints(folder)
            if checkpoints:
                looked_at = checkpoints[-1:] if newest_only else checkpoints
                return [inspect_model(path, f"{folder.name}/{path.name}") for path in looked_at]
            return [inspect_model(folder, folder.resolve().name)]
    repository, _, revision = name.partition("@")
    if not is_hub_name(repository):
        raise ModelError(f"{name}: no such folder, and no name on the Hub; give a model's folder or owner/name")
    return [inspect_model(_download(repository, revision or None), name)]


def inspect_model(folder: Path, name: str) -> Model:
    """What the files of a model say about it.

    Raises:
        ModelError: one is missing or cannot be read.
    """
    config = _read_json(folder / CONFIG, f"{name}: {folder} is no model, it has no {CONFIG}; give a model's folder")
    if not any((folder / file).is_file() for file in _WEIGHTS):
        raise ModelError(f"{name}: {folder} has no weights, as {_WEIGHTS[0]}; give a folder that has, or download them")
    if not any(next(folder.glob(pattern), None) for pattern in _VOCABULARIES):
        raise ModelError(f"{name}: {folder} has no tokenizer; put the tokenizer.json that it was trained with there")
    architecture = str((config.get("architectures") or [""])[0])
    head = next((head for head in _HEADS if architecture.endswith(head)), None)
    step, run = _step_and_run(folder)
    return Model(name, folder, step, head, run)


def check_pretrained(model: Model) -> None:
    """Refuse to fine-tune what has been fine-tuned before.

    Raises:
        ModelError: with the way out.
    """
    if model.head is not None:
        raise ModelError(
            f"{model.name}: the wrong head ({model.head}), it is fine-tuned already; give the pretrained model that it "
            "was made from, or measure it as it is with `sahaj evaluate`"
        )


def check_head(model: Model, task: Task) -> None:
    """Refuse a fine-tuned model of another task.

    Raises:
        ModelError: with the head it has and the one it needs.
    """
    if model.head is not None and model.head != task.head:
        raise ModelError(
            f"{model.name}: the wrong head ({model.head}), the task {task.name} needs {task.head}; give a model that "
            "was fine-tuned for it, or a pretrained one"
        )


def task_of(models: Sequence[Model]) -> Task:
    """The task that the first fine-tuned model was made for.

    Raises:
        ModelError: none of them was, or for a task of which we know nothing.
    """
    head = next((model.head for model in models if model.head is not None), None)
    found = next((task for task in TASKS.values() if task.head == head), None)
    if found is None:
        raise ModelError(f"none of the models was fine-tuned for a task; say which: {' or '.join(TASKS)}")
    return found()


def _checkpoints(folder: Path) -> list[Path]:
    """The checkpoints below, also those of a coordinator's state folder, by step."""
    named = [
        (int(match.group(1)), path)
        for place in (folder, folder / "checkpoints")
        if place.is_dir()
        for path in place.iterdir()
        if (match := _CHECKPOINT.fullmatch(path.name)) and path.is_dir()
    ]
    return [path for _, path in sorted(named)]


def _step_and_run(folder: Path) -> tuple[int | None, str | None]:
    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        step, run = state.get("step"), state.get("run")
    except (OSError, ValueError, AttributeError):
        return None, None  # a model that is of no run of ours
    return step if isinstance(step, int) else None, run if isinstance(run, str) else None


def _read_json(path: Path, missing: str) -> dict[str, Any]:
    if not path.is_file():
        raise ModelError(missing)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read ({' '.join(str(error).split())}); download it again") from None
    if not isinstance(content, dict):
        raise ModelError(f"{path}: not the configuration of a model; download it again")
    return content


def _download(repository: str, revision: str | None) -> Path:
    """The newest files of a repository, or those of a revision, in the cache of `huggingface_hub`."""
    from huggingface_hub import snapshot_download

    texts, kinds = ["*.json", "*.txt", "*.model"], ("*.safetensors", "pytorch_model*.bin")
    try:
        # safetensors where there are any; the optimizer's state and other formats stay on the Hub
        for kind in kinds:
            patterns = [*texts, kind]
            folder = Path(snapshot_download(repository, revision=revision, allow_patterns=patterns, token=hub_token()))
            if next(folder.glob(kind), None):
                break
    except Exception as error:  # of httpx, of the Hub, of the disk: no common class
        raise ModelError(
            f"{repository}: cannot be downloaded from the Hub ({in_a_line(error)}); check the name and your connection"
        ) from None
    return folder
