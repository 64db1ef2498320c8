"""The gradients of a model's parameters as one vector, in memory that is used again for each batch."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import Parameter


class GradientVector:
    """For parameters on one device, one after the other; a parameter without a gradient has zeros."""

    def __init__(self, parameters: Sequence[Parameter]):
        self._parameters = parameters
        self._sizes = [one.numel() for one in parameters]
        self._device = parameters[0].device
        # new memory of this size takes longer to get than to fill; to pinned memory a GPU copies several times as fast
        self._vector = torch.empty(sum(self._sizes), pin_memory=self._device.type == "cuda")

    def times(self, factor: int) -> Tensor:
        """The gradients times a number, of shape [elements], float32 on the processor; the next call overwrites it.

        They are multiplied where they are, and leave the device together.
        """
        on_device = self._device.type != "cpu"
        vector = torch.empty_like(self._vector, device=self._device) if on_device else self._vector
        for place, one in zip(torch.split(vector, self._sizes), self._parameters, strict=True):
            if one.grad is None:
                place.zero_()
            else:
                torch.mul(one.grad.reshape(-1), factor, out=place)
        return self._vector.copy_(vector) if on_device else vector
