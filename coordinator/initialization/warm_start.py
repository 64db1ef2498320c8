"""Initializes a run from a trained model (`model.start_from`).

Layers, positions and heads are copied. Where the vocabularies differ, so are the embedding and the bias of each token
in both; those of the other tokens come from static vectors of the run's own text.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from coordinator.initialization.counted import log_frequencies, text_of
from coordinator.initialization.donor import open_donor
from coordinator.initialization.embeddings import means_of_similar, with_old_moments
from coordinator.initialization.shared_tokens import shared_tokens
from coordinator.initialization.token_vectors import token_vectors
from swarm.errors import RunFileError
from swarm.run_file import RunFile
from trainer.model import PretrainingModel, vocabulary_of

# of the vocabulary, in the text: two tokenizers of one script share a fifth and more, those of two scripts a hundredth
ENOUGH_SHARED = 0.05


def warm_start(
    model: PretrainingModel, run: RunFile, tokenizer: PreTrainedTokenizerFast, say: Callable[[str], None]
) -> None:
    """Fill the run's model in place from the model that `model.start_from` names.

    Raises:
        RunFileError: there is no such model, or it does not fit.
        DataError: the run's text, which is read where vocabularies differ, is not usable.
    """
    assert run.model.start_from is not None, "the run begins with random weights"
    donor = open_donor(run, run.model.start_from)
    shared = shared_tokens(donor.tokenizer, tokenizer)
    size = len(tokenizer)
    names = vocabulary_names(model)
    if len(shared) == size:
        tensors, others = with_vocabulary(donor.tensors, names, lambda old: old[list(shared.values())]), ""
    else:
        text = text_of(run, tokenizer)
        vectors = token_vectors(text, size)
        if sum(bool(vectors[token].any()) for token in shared) >= ENOUGH_SHARED * size:
            tensors = with_vocabulary(donor.tensors, names, lambda old: means_of_similar(old, shared, vectors))
            if names[1] not in donor.tensors:
                tensors[names[1]] = log_frequencies(text, size)
            others = "; the others begin as means of similar ones"
        else:
            tensors = with_vocabulary(donor.tensors, names, lambda old: with_old_moments(old, shared, vectors))
            tensors[names[1]] = log_frequencies(text, size)
            others = "; that is too few to compare the others with, which begin with vectors of the run's own text"
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in tensors:
                value = tensors[name][: len(parameter)]  # of positions, the donor may have more
                if value.shape != parameter.shape:
                    raise RunFileError(
                        f"model.start_from: {name} of {donor.name} is {list(value.shape)}, "
                        f"of the run's model {list(parameter.shape)}; name another model"
                    )
                parameter.copy_(value)
    say(f"The run begins with {donor.name}: {len(shared):,} of {size:,} tokens are its tokens too{others}.")


def vocabulary_names(model: PretrainingModel) -> tuple[str, str]:
    """The names of a model's embeddings and of its head's biases."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    embeddings, biases = vocabulary_of(model)
    return names[id(embeddings)], names[id(biases)]


def with_vocabulary(
    tensors: Mapping[str, Tensor], names: tuple[str, str], carry: Callable[[Tensor], Tensor]
) -> dict[str, Tensor]:
    """The tensors of a model with another vocabulary: a token's embedding and its bias belong together, in one row."""
    embeddings = tensors[names[0]]
    biases = tensors.get(names[1], torch.zeros(len(embeddings)))
    rows = carry(torch.cat([embeddings, biases[:, None]], 1))
    return {**tensors, names[0]: rows[:, :-1], names[1]: rows[:, -1]}
