"""The state of an expert as bytes: parameters, Adam's moments and the version, as safetensors.

States come from other volunteers, so they are read strictly: the names, shapes and types of this very expert, and
numbers that its training can have led to. Nothing in the format can run code.
"""

import torch
from safetensors.torch import load, save
from torch import Tensor

from experts.grid import Uid
from experts.host.settings import ExpertSettings
from experts.host.trained_expert import TrainedExpert

COPIES = 3  # parameters and two moments
HEADER = 16 * 2**10  # bytes of names and shapes, at most
MAX_VERSION = 2**53 - 2**20  # leaves room for more steps before a host's record cannot hold the number
MAX_MAGNITUDE = 1e6  # of parameters and moments
MAX_MEAN = 100.0  # a mean's square over its variance: with Adam's usual betas it is 53 at most, whatever the gradients
NEGLIGIBLE = 1e-16  # the square of Adam's epsilon: a mean below that makes no step to speak of


def longest_state(settings: ExpertSettings) -> int:
    """Bytes of an expert's state, at most."""
    return COPIES * 4 * settings.parameters + HEADER


def to_bytes(expert: TrainedExpert) -> bytes:
    """The state as it is now; not while a step is taken."""
    tensors = {"version": torch.tensor(expert.version)}
    for name, parameter in expert.network.named_parameters():
        moments = expert.optimizer.state.get(parameter) or _no_moments(parameter)
        tensors[name] = parameter.detach()
        tensors[f"{name}.mean"], tensors[f"{name}.variance"] = moments["exp_avg"], moments["exp_avg_sq"]
        tensors["steps"] = torch.as_tensor(moments["step"], dtype=torch.float32)
    return bytes(save(tensors))


def from_bytes(uid: Uid, settings: ExpertSettings, state: bytes) -> TrainedExpert:
    """The expert with this state.

    Raises:
        ValueError: it is no state of such an expert.
    """
    if len(state) > longest_state(settings):
        raise ValueError(f"{len(state):,} bytes, more than the {longest_state(settings):,} of a state")
    try:
        tensors = load(state)
    except Exception as error:  # beside its own error, safetensors raises KeyError, AssertionError and more
        raise ValueError(f"not a state of an expert: {error!r:.200}") from None
    version = _number(tensors, "version", torch.int64)
    steps = _number(tensors, "steps", torch.float32)
    expert = TrainedExpert(uid, settings, int(version))
    for name, parameter in expert.network.named_parameters():
        value, mean, variance = (_alike(tensors, key, parameter) for key in (name, f"{name}.mean", f"{name}.variance"))
        if (variance < 0).any() or (mean.square() > MAX_MEAN * variance + NEGLIGIBLE).any():
            raise ValueError(f"{name}: moments that no gradients have")
        with torch.no_grad():
            parameter.copy_(value)
        if steps:
            expert.optimizer.state[parameter] = {
                "step": torch.tensor(steps),
                "exp_avg": mean,
                "exp_avg_sq": variance,
            }
    if tensors:
        raise ValueError(f"unknown tensors: {', '.join(tensors)!r:.80}")
    return expert


def _no_moments(parameter: Tensor) -> dict[str, Tensor]:
    zeros = torch.zeros_like(parameter)
    return {"exp_avg": zeros, "exp_avg_sq": zeros.clone(), "step": torch.tensor(0.0)}


def _number(tensors: dict[str, Tensor], name: str, dtype: torch.dtype) -> float:
    tensor = tensors.pop(name, None)
    if tensor is None or tensor.shape or tensor.dtype != dtype or not 0 <= tensor.item() <= MAX_VERSION:
        raise ValueError(f"{name}: no number from 0 to {MAX_VERSION} in {dtype}")
    return tensor.item()


def _alike(tensors: dict[str, Tensor], name: str, parameter: Tensor) -> Tensor:
    tensor = tensors.pop(name, None)
    if tensor is None or tensor.shape != parameter.shape or tensor.dtype != torch.float32:
        raise ValueError(f"{name}: no tensor of shape {tuple(parameter.shape)} in float32")
    if not (tensor.abs() <= MAX_MAGNITUDE).all():
        raise ValueError(f"{name}: not finite, or beyond {MAX_MAGNITUDE:,.0f}")
    return tensor
