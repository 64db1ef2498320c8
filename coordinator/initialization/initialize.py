"""Which weights a run begins with."""

from collections.abc import Callable

from transformers import PreTrainedTokenizerFast

from coordinator.initialization.counted import begin_with_counts
from coordinator.initialization.warm_start import warm_start
from swarm.run_file import RunFile
from trainer.model import PretrainingModel


def initialize(
    model: PretrainingModel, run: RunFile, tokenizer: PreTrainedTokenizerFast, say: Callable[[str], None]
) -> None:
    """Change the random weights of a model, in place, into those with which the run begins.

    Raises:
        RunFileError: `model.start_from` names no model that fits.
        DataError: that model has another vocabulary, and the run's text cannot be read to compare the two.
    """
    if run.model.start_from is not None:
        warm_start(model, run, tokenizer, say)
    elif run.model.embeddings == "counted":
        begin_with_counts(model, run, tokenizer, say)
