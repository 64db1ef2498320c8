"""Beginning a run with a trained model instead of random weights (`model.start_from`).

Only the coordinator does this, once: the result is the first snapshot of the log, from which all other peers begin.
Layers, positions and heads are copied. Where the vocabularies differ, the embedding and the bias of a token that both
have are copied, too; the other tokens get theirs from static vectors of the run's own text (`embeddings`).
"""

import itertools
from collections.abc import Callable, Iterable

import torch
from transformers import PreTrainedTokenizerFast

from coordinator.unigram_count import COUNTED, training_documents
from coordinator.warm_start.donor import open_donor
from coordinator.warm_start.embeddings import means_of_similar, with_old_moments
from coordinator.warm_start.shared_tokens import shared_tokens
from coordinator.warm_start.token_vectors import token_vectors
from swarm.run_file import RunFile
from trainer.data.sentences import tokenized_documents
from trainer.model import PretrainingModel

EMBEDDINGS = "albert.embeddings.word_embeddings.weight"
BIAS = "predictions.bias"
# of the vocabulary: two tokenizers of one script share a fifth and more, those of two scripts a hundredth
ENOUGH_SHARED = 0.05


def warm_start(
    model: PretrainingModel, run: RunFile, tokenizer: PreTrainedTokenizerFast, say: Callable[[str], None]
) -> None:
    """Fill the run's model, in place, with what it takes over from the model that `model.start_from` names.

    Raises:
        RunFileError: there is no such model, or it does not fit.
        DataError: the run's text, which is read where vocabularies differ, is not usable.
    """
    assert run.model.start_from is not None, "the run begins with random weights"
    donor = open_donor(run, run.model.start_from)
    shared = shared_tokens(donor.tokenizer, tokenizer)
    tensors = dict(donor.tensors)
    size, width = model.albert.embeddings.word_embeddings.weight.shape
    # a token's embedding and its bias belong together: one row
    old = torch.cat([tensors[EMBEDDINGS], tensors.get(BIAS, torch.zeros(len(tensors[EMBEDDINGS])))[:, None]], 1)
    if len(shared) == size:
        rows, others = old[list(shared.values())], ""
    else:
        vectors = token_vectors(text_of(run, tokenizer), size)
        enough = len(shared) >= ENOUGH_SHARED * size
        rows = (means_of_similar if enough else with_old_moments)(old, shared, vectors)
        others = (
            "; the others begin as means of similar ones"
            if enough
            else "; too few to compare the others with, so these begin like its embeddings in mean and covariance alone"
        )
    tensors[EMBEDDINGS], tensors[BIAS] = rows[:, :width], rows[:, width]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in tensors:  # of positions, the donor may have more
                parameter.copy_(tensors[name][: len(parameter)])
    say(f"The run begins with {donor.name}: {len(shared):,} of {size:,} tokens are its tokens too{others}.")


def text_of(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> Iterable[list[int]]:
    """The tokenized sentences of the training text, in the same order at each call, `COUNTED` tokens of them."""
    tokens = 0
    documents = tokenized_documents(training_documents(run), tokenizer, run.language)
    for sentence in itertools.chain.from_iterable(documents):
        yield sentence
        tokens += len(sentence)
        if tokens >= COUNTED:
            return
