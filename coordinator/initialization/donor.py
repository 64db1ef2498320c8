"""Opens the trained model that a run begins with, and refuses one of another shape."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AlbertConfig,
    AlbertForPreTraining,
    AutoConfig,
    ModernBertConfig,
    ModernBertForMaskedLM,
    PreTrainedTokenizerFast,
)

from swarm.errors import RunFileError, TokenizerError, in_a_line
from swarm.logging.logs import silence_hugging_face
from swarm.run_file import RunFile
from swarm.run_file.validation_messages import shown
from swarm.secret_variables import hub_token
from tokenizer.loading import is_hub_name, read_tokenizer

GELU = ("gelu", "gelu_new", "gelu_pytorch_tanh")  # the same function but for a thousandth


@dataclass(frozen=True)
class Kind:
    """What is to fit in the donor of an architecture, in names of Transformers."""

    config: Any
    model: Any
    body: tuple[str, ...]  # beginnings of tensors without which there is nothing to carry over
    shape: tuple[str, ...]  # keys of the run file and of the configuration
    fixed: tuple[str, ...]  # that a run's model has as the configuration's defaults are
    activation: str
    example: str


SHAPE = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
KINDS = {
    "albert": Kind(
        AlbertConfig,
        AlbertForPreTraining,
        body=("albert.embeddings.", "albert.encoder."),
        shape=(*SHAPE, "embedding_size"),
        fixed=("num_hidden_groups", "inner_group_num"),  # of layers with weights of their own
        activation="hidden_act",
        example="albert/albert-base-v2",
    ),
    "modernbert": Kind(
        ModernBertConfig,
        ModernBertForMaskedLM,
        body=("model.",),
        shape=SHAPE,
        fixed=(
            *("layer_types", "local_attention", "rope_parameters", "norm_eps"),
            *("attention_bias", "classifier_bias", "decoder_bias", "mlp_bias", "norm_bias"),
        ),
        activation="hidden_activation",
        example="answerdotai/ModernBERT-base",
    ),
}


@dataclass(frozen=True)
class Donor:
    """A trained model with its tokenizer."""

    name: str
    tensors: dict[str, Tensor]  # float32, by the names of `PretrainingModel`; heads that it lacks are absent
    tokenizer: PreTrainedTokenizerFast


def open_donor(run: RunFile, name: str) -> Donor:
    """The model of a folder (a checkpoint, for one) or a Hub repository.

    Raises:
        RunFileError: there is none, it is no whole model, or its shape is not that of the run file.
    """
    folder = run.resolve(name)
    if is_hub_name(name):  # also where there is such a folder: what a name means must not change with the disk
        source = name
    elif folder.is_dir():
        source = str(folder)
    else:
        raise RunFileError(
            f"model.start_from: {folder}: no such folder; name a model's folder, as "
            "NAME-state/checkpoints/checkpoint-500, or a Hub repository, as owner/name"
        )
    kind = KINDS[run.model.architecture]
    try:
        silence_hugging_face()
        config = AutoConfig.from_pretrained(source, token=hub_token(), trust_remote_code=False)
        check_shape(run, config, name)
        model, report = kind.model.from_pretrained(
            source, config=config, dtype=torch.float32, token=hub_token(), output_loading_info=True
        )
        tokenizer = read_tokenizer(source)
    except (RunFileError, TokenizerError) as error:
        raise RunFileError(str(error) if isinstance(error, RunFileError) else f"model.start_from: {error}") from None
    except Exception as error:  # of Transformers, of the Hub, of the disk: no common class
        hint = f"; the folder is ./{name}" if is_hub_name(name) and folder.is_dir() else ""
        raise RunFileError(
            f"model.start_from: {name} cannot be loaded ({in_a_line(error)}{hint}); name another model or leave it out"
        ) from None
    missing = {str(one) for one in report["missing_keys"]}
    if lost := sorted(one for one in missing if one.startswith(kind.body)):
        raise RunFileError(
            f"model.start_from: {name} lacks {len(lost)} tensors of {run.model.kind}, for example {lost[0]}; "
            "name another model"
        )
    if len(tokenizer) > config.vocab_size:
        raise RunFileError(
            f"model.start_from: the tokenizer of {name} has {len(tokenizer)} tokens but the model knows "
            f"{config.vocab_size}; put the tokenizer there that it was trained with"
        )
    tensors = {key: value for key, value in model.state_dict().items() if key not in missing}
    return Donor(name, tensors, tokenizer)


def check_shape(run: RunFile, config: Any, name: str) -> None:
    """Refuse a model with other tensors than the run's model, or with other computations.

    Raises:
        RunFileError: with the field of the run file, both values and the way out.
    """
    kind = KINDS[run.model.architecture]
    if not isinstance(config, kind.config):
        raise RunFileError(
            f"model.start_from: {name} is a model of the kind {config.model_type}; "
            f"name {run.model.kind}, as {kind.example}"
        )
    for field in kind.shape:
        ours, theirs = getattr(run.model, field), getattr(config, field)
        if ours != theirs:
            raise RunFileError(
                f"model.{field} is {ours}, but {name} (model.start_from) has {theirs}; "
                f"set it to {theirs} or name another model"
            )
    if run.data.max_length > config.max_position_embeddings:
        raise RunFileError(
            f"data.max_length is {run.data.max_length}, but {name} (model.start_from) has "
            f"{config.max_position_embeddings} positions; set it to {config.max_position_embeddings} at most or name "
            "another model"
        )
    usual = kind.config(num_hidden_layers=config.num_hidden_layers)
    for field in kind.fixed:
        ours, theirs = getattr(usual, field), getattr(config, field)
        if ours != theirs:
            raise RunFileError(
                f"model.start_from: {name} has {field} {shown(theirs)}, and a run's model has {shown(ours)}; "
                "name another model"
            )
    if (activation := getattr(config, kind.activation)) not in GELU:
        raise RunFileError(
            f"model.start_from: {name} was trained with {activation}, and a run's model computes gelu; "
            "name another model"
        )
