"""The run file as it may be published: without secrets, people and folders."""

from pathlib import Path

from swarm.run_file import AccessSection, CoordinatorSection, RunFile
from tokenizer.loading import is_hub_name


def without_secrets(run: RunFile) -> RunFile:
    """The run file without what is this machine's alone: the ledger's URL, which can hold a password, and folders."""
    public = run.coordinator.model_copy(update={"ledger": CoordinatorSection().ledger})
    model = run.model
    if model.start_from is not None and base_model(run) is None:
        model = model.model_copy(update={"start_from": Path(model.start_from).name or "folder"})
    access = run.access.model_copy(update={"tls": None})
    return run.model_copy(update={"coordinator": public, "model": model, "access": access})


def base_model(run: RunFile) -> str | None:
    """The Hub repository of the model that the run begins with; None if that is a folder, or random weights."""
    name = run.model.start_from
    return name if name is not None and is_hub_name(name) else None


def for_everybody(run: RunFile) -> RunFile:
    """The run file of a checkpoint, which may be released: without the people and folders that it names."""
    data = run.data.model_copy(
        update={
            name: [
                source if source.path is None else source.model_copy(update={"path": Path(source.path).name})
                for source in getattr(run.data, name)
            ]
            for name in ("train", "validation")
        }
    )
    tokenizer = run.tokenizer
    if tokenizer.path.startswith(("/", "~")):
        tokenizer = tokenizer.model_copy(update={"path": Path(tokenizer.path).name})
    access = AccessSection(robust=run.access.robust)
    return without_secrets(run).model_copy(update={"data": data, "tokenizer": tokenizer, "access": access})
