"""A model that is fine-tuned together with the experts of its run, which answer in this process (docs/experts.md).

Their term is added at the last layer, as in pretraining, but to all tokens, since a head may read any of them. The gate
and the way of rows to experts and back learn the task, as the rest of the model does; the experts stay as they are.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from downstream.errors import ModelError
from downstream.models import Model
from experts.file_names import EXPERTS, MIXTURE
from experts.layer.expert_term import NAME
from experts.layer.released_term import ReleasedTerm, load_term
from swarm.errors import in_a_line

LAYER = "encoder.albert_layer_groups.0.albert_layers.0"  # ALBERT's layers are one, again and again


def files_of_experts(model: Model) -> list[str]:
    """Those in the model's folder: two, or none if it has no experts."""
    return [name for name in (MIXTURE, EXPERTS) if (model.folder / name).is_file()]


def check_experts(model: Model) -> None:
    """Refuse a model that lacks experts, or one of their two files.

    Raises:
        ModelError: with the way out.
    """
    found = files_of_experts(model)
    if len(found) == 1:
        raise ModelError(
            f"{model.name}: {model.folder} has {found[0]} without the other file of its experts ({MIXTURE}, "
            f"{EXPERTS}); download both"
        )
    if not found:
        raise ModelError(
            f"{model.name}: {model.folder} has no experts ({MIXTURE} and {EXPERTS}); give a release of a run with "
            "experts, or leave --with-experts out"
        )


def add_experts(net: PreTrainedModel, model: Model) -> None:
    """Give a model, in place, the experts in its folder.

    Raises:
        ModelError: a file is missing or broken, or the files belong to another model.
    """
    check_experts(model)
    body: Any = net.base_model
    try:
        layer = body.get_submodule(LAYER)
        term = load_term(model.folder, body.config.hidden_size)
    except Exception as error:  # of safetensors, of pydantic, of torch
        raise ModelError(
            f"{model.name}: its experts cannot be used ({in_a_line(error)}); take {MIXTURE}, {EXPERTS} and the model "
            "from one release"
        ) from None
    term.mixture.off_share = 0.0
    net.add_module(NAME, term.train(net.training))
    _LastLayer(body, layer, term)


def term_of(net: PreTrainedModel) -> ReleasedTerm | None:
    """What `add_experts` gave a model."""
    term = getattr(net, NAME, None)
    return term if isinstance(term, ReleasedTerm) else None


def count_parameters(net: PreTrainedModel) -> int:
    """How many a model has, and its experts if it has some."""
    term = term_of(net)
    experts = () if term is None else term.released.experts.values()
    return net.num_parameters() + sum(one.numel() for expert in experts for one in expert.parameters())


class _LastLayer:
    """Adds the term to the last of the applications of ALBERT's layer: `FFN(x) + term(x)`."""

    def __init__(self, body: Any, layer: nn.Module, term: ReleasedTerm):
        self._term, self._applications = term, body.config.num_hidden_layers
        self._begun = 0  # applications of this forward pass
        self._rows: Tensor | None = None  # [B, T, hidden], as they go into the feed-forward block
        self._mask: Tensor | None = None  # [B, T], true or 1 for tokens
        body.register_forward_pre_hook(self._begin, with_kwargs=True)
        layer.get_submodule("ffn").register_forward_pre_hook(self._note_rows)
        layer.get_submodule("ffn_output").register_forward_hook(self._add)

    def _begin(self, _: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        self._begun = 0
        self._mask = inputs[1] if len(inputs) > 1 else named.get("attention_mask")

    def _note_rows(self, _: nn.Module, inputs: tuple[Tensor]) -> None:
        self._begun += 1
        (self._rows,) = inputs

    def _add(self, _: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        if self._begun < self._applications or self._rows is None:
            return output
        rows, mask = self._rows.flatten(0, 1), self._mask
        self._rows = self._mask = None  # they would keep the batch in memory
        is_token = torch.ones(len(rows), dtype=torch.bool, device=rows.device) if mask is None else mask.flatten() != 0
        added, _balancing = self._term(rows, is_token)
        return output + added.view_as(output)
