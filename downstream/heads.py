"""Transformers models for a task: a pretrained one with a new head, one of random weights, or a finished one."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from transformers import AutoConfig, PreTrainedModel, set_seed

from downstream.errors import ModelError
from downstream.models import Model
from downstream.tasks.task import Task
from downstream.with_experts import add_experts, files_of_experts, term_of
from experts.layer.released_term import split
from swarm.errors import TokenizerError, in_a_line
from swarm.files import whole_directory
from tokenizer.loading import read_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# as configurations of Transformers name them: of ALBERT, BERT and their like, of heads, and of ModernBERT
DROPOUTS = {
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "classifier_dropout_prob",
    "classifier_dropout",
    "attention_dropout",
    "embedding_dropout",
    "mlp_dropout",
}
LONGEST = 512  # tokens; models that name no limit, or count positions from an offset, read this many at least


@dataclass(frozen=True)
class Reader:
    """A model's tokenizer and how many tokens of a text the model reads."""

    tokenizer: "PreTrainedTokenizerFast"
    max_length: int


def open_reader(model: Model, max_length: int | None = None) -> Reader:
    """The tokenizer in the model's folder, and the length it may cut to.

    Raises:
        ModelError: there is no fast tokenizer, or it has more tokens than the model knows.
    """
    try:
        tokenizer = read_tokenizer(str(model.folder))
        config = AutoConfig.from_pretrained(model.folder, trust_remote_code=False)
    except TokenizerError as error:
        raise ModelError(f"{model.name}: {error}") from None
    except Exception as error:
        raise _unreadable(model, error) from None
    known = getattr(config, "vocab_size", 0)  # a model of images has none
    if len(tokenizer) > known:
        raise ModelError(
            f"{model.name}: its tokenizer has {len(tokenizer)} tokens but the model knows {known}; "
            "put the tokenizer there that it was trained with"
        )
    limit = min(tokenizer.model_max_length, getattr(config, "max_position_embeddings", None) or LONGEST, LONGEST)
    length = min(limit, max_length or limit)
    tokenizer.model_max_length = length  # where pipelines of the saved model truncate, or begin another window
    tokenizer.truncation_side = tokenizer.padding_side = "right"  # whatever it was made for
    return Reader(tokenizer, length)


def new_head(
    model: Model,
    task: Task,
    labels: Sequence[str],
    seed: int,
    *,
    dropout: float = 0.0,
    from_scratch: bool = False,
    with_experts: bool = False,
) -> PreTrainedModel:
    """The model with a head for these labels; what is drawn at random depends on `seed` alone.

    Args:
        dropout: at least, wherever the architecture has it.
        from_scratch: whether all weights are random ones, not just those of the head.
        with_experts: whether it has the experts of the model's folder, too.

    Raises:
        ModelError: the weights do not belong to the architecture, or it has no such head.
    """
    names = dict(enumerate(labels))
    set_seed(seed)
    try:
        config = AutoConfig.from_pretrained(
            model.folder,
            num_labels=len(names),
            id2label=names,
            label2id={label: n for n, label in names.items()},
            trust_remote_code=False,
        )
        for name in DROPOUTS & config.to_dict().keys():
            if (own := getattr(config, name)) is not None:  # none of its own: another one's counts
                setattr(config, name, max(own, dropout))
        if from_scratch:
            return _auto_class(task).from_config(config, dtype=torch.float32, trust_remote_code=False)
        loaded, report = _auto_class(task).from_pretrained(
            model.folder, config=config, dtype=torch.float32, output_loading_info=True, trust_remote_code=False
        )
    except Exception as error:
        raise _unreadable(model, error) from None
    body = f"{loaded.base_model_prefix}."
    # a model that has learned masked tokens alone has no pooler, which is new as the head is
    missing = [name for name in report["missing_keys"] if name.startswith(body) and ".pooler." not in name]
    _check_loaded(model, missing, report["mismatched_keys"])
    if with_experts:
        add_experts(loaded, model)
    return loaded


def finished(model: Model, task: Task) -> PreTrainedModel:
    """A model that was fine-tuned before, as it is; with experts if it was fine-tuned with them.

    Raises:
        ModelError: its files do not belong together.
    """
    try:
        loaded, report = _auto_class(task).from_pretrained(
            model.folder, dtype=torch.float32, output_loading_info=True, trust_remote_code=False
        )
    except Exception as error:
        raise _unreadable(model, error) from None
    _check_loaded(model, list(report["missing_keys"]), report["mismatched_keys"])
    if files_of_experts(model):
        add_experts(loaded, model)
    return loaded


def label_names(model: PreTrainedModel) -> dict[int, str]:
    """The label behind each number that the model's head chooses from."""
    return {int(number): str(name) for number, name in (model.config.id2label or {}).items()}


def save(model: PreTrainedModel, tokenizer: "PreTrainedTokenizerFast", folder: Path) -> None:
    """Write a folder that `transformers.pipeline` loads, and the model's experts if it has any; whole or not at all.

    Raises:
        StorageError: the disk is full or the folder cannot be written.
    """
    _, ordinary = split(model.state_dict())
    with whole_directory(folder.absolute()) as partial:
        model.save_pretrained(partial, state_dict=ordinary)
        if (term := term_of(model)) is not None:
            term.save(partial)
        tokenizer.save_pretrained(partial)


def _auto_class(task: Task) -> Any:
    """The class of Transformers that finds a model with the task's head for a configuration."""
    return getattr(transformers, f"AutoModel{task.head}")


def _check_loaded(model: Model, missing: Sequence[str], mismatched: Any) -> None:
    """Refuse missing tensors: Transformers draws them at random and only logs it."""
    wrong = sorted([*missing, *(str(one[0]) for one in mismatched)])
    if wrong:
        raise ModelError(
            f"{model.name}: {len(wrong)} tensors are missing or of another shape, {wrong[0]} for one; its weights and "
            "its config.json do not belong together, download them again"
        )


def _unreadable(model: Model, error: Exception) -> ModelError:
    why = in_a_line(error)
    return ModelError(f"{model.name}: the model in {model.folder} cannot be used ({why}); give another one")
