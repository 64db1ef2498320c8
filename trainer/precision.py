"""The device and the number format to compute with."""

import contextlib
from dataclasses import dataclass
from typing import Any

import torch

from swarm.errors import SahajError
from swarm.language import _


class DeviceError(SahajError):
    """The device that was asked for cannot be used."""

    exit_status = 9


@dataclass(frozen=True)
class Precision:
    """How forward and backward are computed; parameters and gradients stay in float32."""

    device: torch.device
    dtype: torch.dtype  # float32, bfloat16 or float16

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """The context for the forward pass."""
        if self.dtype == torch.float32:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def scaler(self) -> torch.amp.GradScaler:
        """Keeps float16 gradients from vanishing; does nothing for the other types.

        It is torch's own: hivemind's is for accumulating in `param.grad`, and we accumulate beside it.
        """
        return torch.amp.GradScaler(self.device.type, enabled=self.dtype == torch.float16)


def pick_device(asked: str | None) -> torch.device:
    """The device asked for, or the best there is.

    Raises:
        DeviceError: it is not there.
    """
    if asked is None:
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(asked)
        torch.zeros(1, device=device)
    except Exception as error:
        reason = str(error).split("\n")[0]
        problem = _("{device}: this device cannot be used ({reason}); try cpu or cuda")
        raise DeviceError(problem.format(device=asked, reason=reason)) from None
    return device


def gpu_uuid(device: torch.device) -> str:
    """By which NVIDIA's driver knows a GPU; empty if it is no such one."""
    if device.type != "cuda" or torch.version.hip is not None:
        return ""
    return str(torch.cuda.get_device_properties(device).uuid)


def device_name(device: torch.device) -> str:
    """The device's name for people."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)[:80]
    threads = torch.get_num_threads()
    return f"{device.type} ({threads} thread{'s' if threads > 1 else ''})" if device.type == "cpu" else device.type


def candidate_dtypes(device_type: str, *, has_bfloat16: bool) -> list[torch.dtype]:
    """Number formats worth trying on a device, the plainest first; the fastest one is taken.

    A GPU without bfloat16 computes in float16, with a gradient scaler. On a processor bfloat16 is
    faster only where it has instructions for it, which a trial finds out better than a list of models.
    """
    if device_type == "cuda":
        return [torch.bfloat16] if has_bfloat16 else [torch.float16]
    if device_type == "cpu":
        return [torch.float32, torch.bfloat16]
    return [torch.float32]


def wait_for(device: torch.device) -> None:
    """Wait until what was launched on a device is computed; a processor computes at once."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def empty_cache(device: torch.device) -> None:
    """Free the memory of a device that torch keeps for later."""
    if device.type != "cpu":
        torch.get_device_module(device).empty_cache()


def use_fast_arithmetic(device: torch.device) -> None:
    """TF32 for what is left in float32 on a GPU: 10 bits of mantissa are plenty next to bfloat16's 7."""
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
