"""Opens the trained model that a run begins with, and refuses one of another shape."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AlbertConfig, AlbertForPreTraining, AutoConfig, PreTrainedTokenizerFast

from swarm.errors import RunFileError, TokenizerError, in_a_line
from swarm.logging.logs import silence_hugging_face
from swarm.run_file import ModelSection, RunFile
from swarm.secret_variables import hub_token
from tokenizer.loading import is_hub_name, read_tokenizer

SHAPE = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "embedding_size")
GROUPS = ("num_hidden_groups", "inner_group_num")  # of layers with weights of their own; a run's model has one
GELU = ("gelu", "gelu_new", "gelu_pytorch_tanh")  # the same function but for a thousandth
BODY = ("albert.embeddings.", "albert.encoder.")  # without these there is nothing to carry over


@dataclass(frozen=True)
class Donor:
    """A trained ALBERT with its tokenizer."""

    name: str
    tensors: dict[str, Tensor]  # float32, by the names of `PretrainingModel`; heads that it lacks are absent
    tokenizer: PreTrainedTokenizerFast


def open_donor(run: RunFile, name: str) -> Donor:
    """The model of a folder (a checkpoint, for one) or a Hub repository.

    Raises:
        RunFileError: there is none, it is no whole ALBERT, or its shape is not that of the run file.
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
    albert: Any = AlbertForPreTraining  # what it returns depends on an argument, which its types do not know
    try:
        silence_hugging_face()
        config = AutoConfig.from_pretrained(source, token=hub_token())
        check_shape(run, config, name)
        model, report = albert.from_pretrained(
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
    if lost := sorted(one for one in missing if one.startswith(BODY)):
        raise RunFileError(
            f"model.start_from: {name} lacks {len(lost)} tensors of an ALBERT, {lost[0]} for one; name another model"
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
    if not isinstance(config, AlbertConfig):
        raise RunFileError(
            f"model.start_from: {name} is a model of the kind {config.model_type}; "
            "name an ALBERT, as albert/albert-base-v2"
        )
    model: ModelSection = run.model
    for field in SHAPE:
        ours, theirs = getattr(model, field), getattr(config, field)
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
    for field in GROUPS:
        if getattr(config, field) != 1:
            raise RunFileError(
                f"model.start_from: {name} has {field} {getattr(config, field)}, and a run's layers share their "
                "weights; name a model in which it is 1"
            )
    if config.hidden_act not in GELU:
        raise RunFileError(
            f"model.start_from: {name} was trained with {config.hidden_act}, and a run's model computes gelu; "
            "name another model"
        )
