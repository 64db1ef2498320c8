"""A model that is taught a task together with the experts of its run, which answer in this process (docs/experts.md).

Their term is added at the last layer, as in pretraining, but to all tokens, since a head may read any of them. The gate
and the way of rows to experts and back learn the task, as the rest of the model does; the experts stay as they are.
"""

import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from downstream.errors import ModelError
from downstream.models import Model
from experts.file_names import EXPERTS, MIXTURE
from experts.layer.expert_term import NAME, ExpertTerm
from experts.layer.local import LocalExperts
from experts.layer.released_term import load_term, to_bytes
from swarm.errors import in_a_line

LAYER = "encoder.albert_layer_groups.0.albert_layers.0"  # ALBERT's layers are one, again and again


def has_experts(model: Model) -> bool:
    """Whether both files are in the model's folder."""
    return all((model.folder / name).is_file() for name in (MIXTURE, EXPERTS))


def check_experts(model: Model) -> None:
    """Refuse a model that has none.

    Raises:
        ModelError: with the way out.
    """
    if not has_experts(model):
        raise ModelError(
            f"{model.name}: {model.folder} has no experts ({MIXTURE} and {EXPERTS}); give a release of a run with "
            "experts, or leave --with-experts out"
        )


def add_experts(net: PreTrainedModel, model: Model) -> None:
    """Give a model, in place, the experts that lie in its folder.

    Raises:
        ModelError: the files are broken, or belong to another model.
    """
    body: Any = net.base_model
    try:
        term = load_term(model.folder, body.config.hidden_size)
        layer = body.get_submodule(LAYER)
    except Exception as error:  # of safetensors, of pydantic, of torch
        raise ModelError(
            f"{model.name}: its experts cannot be used ({in_a_line(error)}); download {MIXTURE} and {EXPERTS} again"
        ) from None
    term.mixture.off_share = 0.0
    net.add_module(NAME, term)
    _LastLayer(body, layer, term)


def term_of(net: PreTrainedModel) -> ExpertTerm | None:
    """What `add_experts` gave a model."""
    term = getattr(net, NAME, None)
    return term if isinstance(term, ExpertTerm) else None


def parameters(net: PreTrainedModel) -> int:
    """Of a model, and of its experts if it has some."""
    caller = None if (term := term_of(net)) is None else term.mixture.caller
    return net.num_parameters() + (caller.parameters if isinstance(caller, LocalExperts) else 0)


def without_experts(net: PreTrainedModel) -> dict[str, Tensor]:
    """The tensors of a model but for those of the term."""
    return {name: tensor for name, tensor in net.state_dict().items() if not name.startswith(f"{NAME}.")}


def save_experts(net: PreTrainedModel, source: Path, folder: Path) -> None:
    """Put the experts of a model, which came from `source`, beside its other files in `folder`; none if it has none."""
    if (term := term_of(net)) is None:
        return
    tensors = {f"{NAME}.{name}": tensor.detach().cpu().contiguous() for name, tensor in term.state_dict().items()}
    (folder / MIXTURE).write_bytes(to_bytes(tensors, term.settings))
    shutil.copyfile(source / EXPERTS, folder / EXPERTS)


class _LastLayer:
    """Adds the term to the last of the applications of ALBERT's layer: `FFN(x) + term(x)`."""

    def __init__(self, body: Any, layer: nn.Module, term: ExpertTerm):
        self._term, self._applications = term, body.config.num_hidden_layers
        self._begun = 0  # applications of this forward pass
        self._rows: Tensor = torch.empty(0)  # [B, T, hidden], as they go into the feed-forward block
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
        if self._begun < self._applications:
            return output
        rows = self._rows.flatten(0, 1)
        is_token = torch.ones(len(rows), device=rows.device) if self._mask is None else self._mask.flatten()
        added, _balancing = self._term(rows, is_token.bool())
        return output + added.view_as(output)
