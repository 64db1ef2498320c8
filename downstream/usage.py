"""How a fine-tuned model is used from Python."""

from pathlib import Path

from transformers import PreTrainedModel

from downstream.errors import ModelError
from downstream.heads import finished
from downstream.models import inspect_model, task_of
from downstream.tasks.task import Task


def usage(task: Task, folder: Path, max_length: int, *, with_experts: bool) -> str:
    """The lines of Python that use the model in a folder.

    Args:
        max_length: tokens that it reads.
        with_experts: whether it was fine-tuned with experts, of which Transformers knows nothing.
    """
    options = task.pipeline_options(max_length)
    if not with_experts:
        return f"from transformers import pipeline; pipeline({task.pipeline!r}, {str(folder)!r}, {options})"
    return (
        "from downstream.usage import load; from transformers import pipeline\n"
        f"pipeline({task.pipeline!r}, load({str(folder)!r}), tokenizer={str(folder)!r}, {options})"
    )


def load(folder: str | Path) -> PreTrainedModel:
    """A fine-tuned model, with its experts if it has any.

    Raises:
        ModelError: a file is missing or broken, or the model was not fine-tuned.
    """
    model = inspect_model(Path(folder), str(folder))
    if model.head is None:
        raise ModelError(f"{folder}: was not fine-tuned; do that with `sahaj finetune`, or load it with Transformers")
    return finished(model, task_of([model]))
