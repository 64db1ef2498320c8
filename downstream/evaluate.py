"""What `sahaj evaluate` does: checkpoints of a run and other models side by side on the same data."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from downstream.comparison import Comparison, candidates_of
from downstream.data.loading import DataOptions, load_data
from downstream.errors import ModelError
from downstream.models import check_head, find_models, task_of
from downstream.report.output import check_file, check_picture
from downstream.report.results import WITH_EXPERTS, Results, publish
from downstream.tasks import TASKS
from downstream.training import Settings
from downstream.with_experts import check_experts


def evaluate(
    task_name: str | None,
    names: Sequence[str],
    data: DataOptions,
    settings: Settings,
    *,
    from_scratch: bool = False,
    with_experts: bool = False,
    json_file: Path | None = None,
    picture: Path | None = None,
    console: Console | None = None,
) -> Results:
    """Measure models on a test split; those that are not fine-tuned for the task yet are fine-tuned first.

    The coordinator of a live run removes older checkpoints: those are left out, and the others measured.

    Args:
        task_name: `ner`, `classify`, or None if a fine-tuned model among them tells.
        names: folders, folders of checkpoints, or Hub repositories.
        from_scratch: the architecture of the first pretrained model from random weights, too.
        with_experts: pretrained models that have experts are fine-tuned a second time, with them.
        picture: an SVG or PNG file for the score against the global step.

    Raises:
        DataError, ModelError, StorageError: one line each; files are written whole or not at all, and tell of the
            models that were finished.
    """
    console = console or Console()
    if json_file is not None:
        check_file(json_file)
    if picture is not None:
        check_picture(picture)
    models = [model for name in names for model in find_models(name)]
    task = TASKS[task_name]() if task_name is not None else task_of(models)
    for model in models:
        check_head(model, task)
    pretrained = next((model for model in models if not model.is_fine_tuned), None)
    if pretrained is not None and data.train is None and data.dataset is None:
        raise ModelError(
            f"{pretrained.name}: not fine-tuned for {task.name} yet; give --train and --validation, and it will be"
        )
    candidates = candidates_of(models, from_scratch=from_scratch, with_experts=with_experts)
    if with_experts and not any(one.how == WITH_EXPERTS for one in candidates):
        if pretrained is None:
            raise ModelError(f"{models[0].name}: fine-tuned already, and measured as it is; leave --with-experts out")
        check_experts(pretrained)
    loaded = load_data(task, data, training=pretrained is not None)
    comparison = Comparison(task, loaded, settings, console)
    comparison.check(candidates)
    try:
        for candidate in candidates:
            try:
                comparison.add(candidate)
            except Exception:
                if candidate.model.folder.exists() or (candidate == candidates[-1] and not comparison.results().models):
                    raise
                line = f"{candidate.model.name}: left out, as {candidate.model.folder} was removed meanwhile"
                console.print(escape(line), soft_wrap=True, highlight=False)
    finally:  # whatever stops a later model, the finished ones have taken hours
        publish(comparison.results(), console, json_file, picture)
    return comparison.results()
