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
from swarm.errors import DataError, in_a_line
from swarm.run_file import RunFile
from trainer.data.sentences import tokenized_documents
from trainer.model import PretrainingModel, vocabulary_of

TEXT_TIMEOUT = 120.0  # seconds to wait for the run's text


def begin_with_counts(
    model: PretrainingModel, run: RunFile, tokenizer: PreTrainedTokenizerFast, say: Callable[[str], None]
) -> None:
    """Fill embeddings and biases of the run's model in place; they stay random if the text cannot be read."""
    say("Counting the run's text: its model begins with the frequencies and the neighbours of tokens.")
    try:
        text = text_of(run, tokenizer)
        vectors = token_vectors(text, len(tokenizer))
    except Exception as error:  # trainers may have text that the coordinator lacks
        say(f"The run begins with random embeddings, as its text cannot be counted here: {in_a_line(error)}")
        return
    embeddings, biases = vocabulary_of(model)
    with torch.no_grad():
        embeddings.copy_(with_old_moments(embeddings.detach(), {}, vectors))
        biases.copy_(log_frequencies(text, len(tokenizer)))


def log_frequencies(sentences: Sequence[Sequence[int]], size: int) -> Tensor:
    """Log-frequencies of tokens, [size], shifted to a mean of 0: biases with which a head predicts frequencies."""
    tokens = torch.tensor(list(itertools.chain.from_iterable(sentences)), dtype=torch.int64)
    logarithms = (torch.bincount(tokens, minlength=size) + 1.0).log()
    return logarithms - logarithms.mean()


def text_of(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> list[list[int]]:
    """The tokenized sentences of the training text, in the same order at each call, about `COUNTED` tokens of them.

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
    for document in tokenized_documents(training_documents(run, sleep), tokenizer, run.language):
        check_deadline()
        sentences.extend(document)
        tokens += sum(map(len, document))
        if tokens >= COUNTED:
            break
    return sentences
