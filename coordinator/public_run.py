"""The run file without what is nobody else's business."""

from pathlib import Path

from swarm.run_file import CoordinatorSection, RunFile


def without_secrets(run: RunFile) -> RunFile:
    """The run file as it may be published: the ledger's address can hold a password."""
    public = run.coordinator.model_copy(update={"ledger": CoordinatorSection().ledger})
    return run.model_copy(update={"coordinator": public})


def for_everybody(run: RunFile) -> RunFile:
    """The run file as it lies in a checkpoint, which may be released: without the people and folders it names."""
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
    return without_secrets(run).model_copy(update={"data": data, "tokenizer": tokenizer, "access": None})
