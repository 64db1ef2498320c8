"""Initializes embeddings and biases from counts of the run's text.

Tokens with similar neighbours get similar embeddings, and the head's biases are the log-frequencies of tokens. A run
then begins near the loss of the unigram model, and needs no steps to learn which words are alike. Counting takes
seconds. All other weights are those of `build_model`.
"""

import itertools
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from coordinator.evaluation.unigram import COUNTED, training_documents
from coordinator.initialization.embeddings import with_old_moments
from coordinator.initialization.token_vectors import token_vectors
from swarm.errors import DataError
from swarm.run_file import RunFile
from trainer.data.sentences import tokenized_documents
from trainer.model import PretrainingModel, vocabulary_of

TEXT_TIMEOUT = 120.0  # seconds to wait for the run's text
ENOUGH = 100_000  # tokens, with which a run may begin where more cannot be had by then


def begin_with_counts(
    model: PretrainingModel, run: RunFile, tokenizer: PreTrainedTokenizerFast, say: Callable[[str], None]
) -> bool:
    """Fill embeddings and biases of a model in place, and return True; False where trainers alone have the text.

    Raises:
        DataError: the text cannot be read now. A run begins only once, so it does not begin without it.
    """
    paths = [run.resolve(source.path) for source in run.data.train if source.path is not None]
    if missing := [str(path) for path in paths if not path.exists()]:
        say(f"The run begins with random embeddings, as its text is not on this machine: {', '.join(missing)}")
        return False
    say("Counting the run's text: its model begins with the frequencies and the neighbours of tokens.")
    try:
        text = text_of(run, tokenizer)
    except DataError as error:
        raise DataError(f"{error}; start again when the text can be read, or set model.embeddings: random") from error
    vectors = token_vectors(text, len(tokenizer))
    embeddings, biases = vocabulary_of(model)
    with torch.no_grad():
        embeddings.copy_(with_old_moments(embeddings.detach(), {}, vectors))
        biases.copy_(log_frequencies(text, len(tokenizer)))
    return True


def log_frequencies(sentences: Sequence[Sequence[int]], size: int) -> Tensor:
    """Log-frequencies of tokens, [size], shifted to a mean of 0: biases with which a head predicts frequencies."""
    tokens = torch.tensor(list(itertools.chain.from_iterable(sentences)), dtype=torch.int64)
    logarithms = (torch.bincount(tokens, minlength=size) + 1.0).log()
    return logarithms - logarithms.mean()


def text_of(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> list[list[int]]:
    """The tokenized sentences of the training text, in the same order at each call, about `COUNTED` tokens of them.

    Where the text ends or fails after `ENOUGH` tokens, or more do not come within `TEXT_TIMEOUT`, these are taken.

    Raises:
        DataError: the text is not usable, or not there within `TEXT_TIMEOUT`.
    """
    deadline = time.monotonic() + TEXT_TIMEOUT

    def check_deadline() -> None:
        if time.monotonic() > deadline:
            raise DataError(
                f"data.train: the text does not come within {TEXT_TIMEOUT:.0f} s; try again, or use local text"
            )

    def sleep(seconds: float) -> None:
        check_deadline()
        time.sleep(seconds)

    sentences: list[list[int]] = []
    tokens = 0
    try:
        for document in tokenized_documents(training_documents(run, sleep), tokenizer, run.language):
            sentences.extend(document)
            tokens += sum(map(len, document))
            if tokens >= COUNTED:
                break
            check_deadline()
    except DataError:
        if tokens < ENOUGH:
            raise
    return sentences
