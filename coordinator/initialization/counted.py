"""Beginning a run with what its text tells by counting, in place of random embeddings.

Tokens that are near the same others get similar embeddings, and the head's biases are the frequencies of tokens. A run
then begins near the loss of a table of frequencies, and needs no steps to learn which words are alike. What is counted
takes seconds; all else about the model begins at random, or as sinusoids (`trainer/model.py`).
"""

import itertools
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from coordinator.evaluation.unigram_count import COUNTED, training_documents
from coordinator.initialization.embeddings import with_old_moments
from coordinator.initialization.token_vectors import token_vectors
from swarm.errors import DataError, in_a_line
from swarm.run_file import RunFile
from trainer.data.sentences import tokenized_documents
from trainer.model import PretrainingModel

PATIENCE = 120.0  # seconds for which the opening of a run waits for its text


def begin_with_counts(
    model: PretrainingModel, run: RunFile, tokenizer: PreTrainedTokenizerFast, say: Callable[[str], None]
) -> None:
    """Fill embeddings and biases of the run's model in place. Text that cannot be read leaves them as they are."""
    say("Counting the run's text: its model begins with the frequencies and the neighbours of tokens.")
    try:
        text = text_of(run, tokenizer)
        vectors = token_vectors(text, len(tokenizer))
    except Exception as error:  # trainers may well have the text that the coordinator lacks
        say(f"The run begins with random embeddings, as its text cannot be counted here: {in_a_line(error)}")
        return
    embeddings = model.albert.embeddings.word_embeddings.weight
    with torch.no_grad():
        embeddings.copy_(with_old_moments(embeddings.detach(), {}, vectors))
        model.predictions.bias.copy_(log_frequencies(text, len(tokenizer)))


def log_frequencies(sentences: Sequence[Sequence[int]], size: int) -> Tensor:
    """Biases with which a head that knows nothing else predicts how frequent each token is, [size]; their mean is 0."""
    tokens = torch.tensor(list(itertools.chain.from_iterable(sentences)), dtype=torch.int64)
    logarithms = (torch.bincount(tokens, minlength=size) + 1.0).log()
    return logarithms - logarithms.mean()


def text_of(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> list[list[int]]:
    """The tokenized sentences of the training text, in the same order at each call, about `COUNTED` tokens of them.

    Raises:
        DataError: the text is not usable, or takes longer than `PATIENCE` to come.
    """
    deadline = time.monotonic() + PATIENCE

    def be_in_time() -> None:
        if time.monotonic() > deadline:
            raise DataError(f"data.train: the text does not come within {PATIENCE:.0f} s; try again, or use local text")

    def sleep(seconds: float) -> None:
        be_in_time()
        time.sleep(seconds)

    sentences: list[list[int]] = []
    tokens = 0
    for document in tokenized_documents(training_documents(run, sleep), tokenizer, run.language):
        be_in_time()
        sentences.extend(document)
        tokens += sum(map(len, document))
        if tokens >= COUNTED:
            break
    return sentences
