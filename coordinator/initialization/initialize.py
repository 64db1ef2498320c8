"""Initializes the model of a new run."""

from collections.abc import Callable
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from averaging.log.disk import LOG_FILE
from averaging.log.entry_file import newest_step
from coordinator.checkpoints.store import LoadedCheckpoint
from coordinator.initialization.counted import begin_with_counts
from coordinator.initialization.warm_start import warm_start
from coordinator.state_folder import LOG, RANDOM, TOLD
from swarm.errors import DataError
from swarm.files import write_file
from swarm.run_file import RunFile
from trainer.model import PretrainingModel


def is_new(run: RunFile, folder: Path, newest: LoadedCheckpoint | None) -> bool:
    """Whether the run begins now: its state folder has no checkpoint and no log. Small groups keep no states in one.

    Raises:
        StorageError: the log cannot be read.
    """
    if newest is not None:
        return False
    return run.averaging.target_group_size is not None or newest_step(folder / LOG / LOG_FILE) is None


def begin(
    model: PretrainingModel, run: RunFile, tokenizer: PreTrainedTokenizerFast, folder: Path, say: Callable[[str], None]
) -> None:
    """Initialize the model of a new run.

    Raises:
        RunFileError, DataError: see `initialize`. Small groups, whose peers have the newest state, go on all the same.
    """
    try:
        as_asked = initialize(model, run, tokenizer, say)
    except DataError as error:
        if run.averaging.target_group_size is None or not (folder / TOLD).exists():
            raise
        say(f"problem: {error}; the run goes on with what its peers have")
    else:
        keep_beginning(folder, as_asked=as_asked)


def keep_beginning(folder: Path, *, as_asked: bool) -> None:
    """Keep for the model card whether the run begins with the embeddings that its run file asks for."""
    (folder / RANDOM).unlink(missing_ok=True)  # of a start that came to nothing
    if not as_asked:
        write_file(folder / RANDOM, "")


def initialize(
    model: PretrainingModel, run: RunFile, tokenizer: PreTrainedTokenizerFast, say: Callable[[str], None]
) -> bool:
    """Change the random weights of a model, in place, into those with which the run begins.

    Returns whether they are what the run file asks for: where trainers alone have its text, nothing is counted.

    Raises:
        RunFileError: `model.start_from` names no model that fits.
        DataError: the run's text has to be read, to count its tokens or to compare vocabularies, and cannot be.
    """
    if run.model.start_from is not None:
        warm_start(model, run, tokenizer, say)
    elif run.model.embeddings == "counted":
        return begin_with_counts(model, run, tokenizer, say)
    return True
