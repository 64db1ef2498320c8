"""What `sahaj finetune` does: a pretrained model learns a task, several times, and the best one is saved."""

from pathlib import Path

from rich.console import Console

from downstream.comparison import Candidate, Comparison, Tuned
from downstream.data.loading import DataOptions, load_data
from downstream.heads import save
from downstream.models import check_pretrained, find_models
from downstream.report.output import check_file, check_model_folder
from downstream.report.results import FINE_TUNED, FROM_SCRATCH, WITH_EXPERTS, Results, publish
from downstream.tasks.task import Task
from downstream.training import Settings
from downstream.usage import usage
from downstream.with_experts import check_experts
from swarm.errors import StorageError


def finetune(
    task: Task,
    model: str,
    data: DataOptions,
    settings: Settings,
    *,
    out: Path,
    from_scratch: bool = False,
    with_experts: bool = False,
    json_file: Path | None = None,
    console: Console | None = None,
) -> Results:
    """Fine-tune a model and save it in `out` as the seed that validates best left it.

    Args:
        model: a folder or a Hub repository; of a folder of checkpoints the newest is taken.
        from_scratch: train the same architecture from random weights too, to compare with.
        with_experts: fine-tune it with its experts, and not without.

    Raises:
        DataError, ModelError, StorageError: one line each. Whatever ends it, Ctrl-C included, `out` and `json_file`
            are either as they were or hold all of the new; the latter also if only the model from random weights
            fails.
    """
    console = console or Console()
    check_model_folder(out, task)
    if json_file is not None:
        check_file(json_file)
        if out.absolute() in json_file.absolute().parents:
            raise StorageError(f"{json_file}: is in {out}, which is replaced as a whole; choose another folder for it")
    loaded = load_data(task, data, training=True)
    pretrained = find_models(model, newest_only=True)[-1]
    check_pretrained(pretrained)
    if with_experts:
        check_experts(pretrained)
    comparison = Comparison(task, loaded, settings, console)
    tuned = comparison.add(Candidate(pretrained, WITH_EXPERTS if with_experts else FINE_TUNED))
    assert isinstance(tuned, Tuned), "it was fine-tuned"
    try:
        if from_scratch:
            comparison.add(Candidate(pretrained, FROM_SCRATCH))
    finally:  # whatever stops the second model or cannot be written, the first one has taken hours
        try:
            save(tuned.model, tuned.reader.tokenizer, out)
        finally:
            publish(comparison.results(), console, json_file)
    how_to = usage(task, out, tuned.reader.max_length, with_experts=with_experts)
    console.print(
        f"Saved in {out}, as seed {tuned.result.seed} left it. To use it:\n{how_to}",
        soft_wrap=True,
        markup=False,
        highlight=False,
    )
    return comparison.results()
