"""The run's model: which encoder it is, and its initial weights."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import nn
from transformers import PreTrainedTokenizerFast
from transformers.models.albert.modeling_albert import AlbertLayer
from transformers.models.modernbert.modeling_modernbert import ModernBertEncoderLayer

from swarm.errors import TokenizerError
from swarm.run_file import RunFile
from trainer.models.albert import AlbertMaskedLM, AlbertPretraining, build_albert
from trainer.models.modernbert import ModernBertPretraining, build_modernbert

PretrainingModel: TypeAlias = AlbertPretraining | AlbertMaskedLM | ModernBertPretraining

_BUILDERS: dict[str, Callable[[RunFile, PreTrainedTokenizerFast], PretrainingModel]] = {
    "albert": build_albert,
    "modernbert": build_modernbert,
}


def build_model(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> PretrainingModel:
    """The run's model with its initial weights, the same on every peer whatever random numbers were drawn before.

    Raises:
        TokenizerError: the tokenizer is larger than the run file says.
    """
    if len(tokenizer) > run.tokenizer.vocab_size:
        raise TokenizerError(
            f"{run.tokenizer.path}: the tokenizer has {len(tokenizer)} tokens, but tokenizer.vocab_size is "
            f"{run.tokenizer.vocab_size}; set it to {len(tokenizer)} or train another tokenizer"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.model.seed)
        return _BUILDERS[run.model.architecture](run, tokenizer)


def vocabulary_of(model: PretrainingModel) -> tuple[nn.Parameter, nn.Parameter]:
    """The parameters with a row for each token: embeddings, which are the head's projection too, and its biases."""
    embeddings: Any = model.get_input_embeddings()
    projection: Any = model.get_output_embeddings()
    return embeddings.weight, projection.bias


def compile_layers(model: nn.Module, **options: Any) -> None:
    """Have torch compile each of the encoder's layers when it is first called, with these options of `torch.compile`.

    ALBERT's layers are one module, so there is one program to compile; a program of the whole model has them
    one after the other and takes minutes.
    """
    for module in model.modules():
        if isinstance(module, (AlbertLayer, ModernBertEncoderLayer)):
            module.compile(**options)
