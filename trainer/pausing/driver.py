"""What NVIDIA's driver tells of a GPU, by its own library (package nvidia-ml-py)."""

import importlib
import sys
from collections.abc import Callable
from typing import Any

from swarm.language import _
from trainer.pausing.duty_cycle import Gpu
from trainer.pausing.wishes import WishError, Wishes

Read = Callable[[], Gpu]


def driver_of(uuid: str, wishes: Wishes, clock: Callable[[], float], library: Any = None) -> Read:
    """What reads temperature and power of a GPU, as far as the wishes have limits for them.

    Args:
        uuid: of the GPU, as torch has it; empty if the device is none of NVIDIA's.
        library: stands in for `pynvml`.

    Raises:
        WishError: it cannot be read.
    """
    limits = {"--max-temperature": wishes.max_temperature, "--max-power": wishes.max_power}
    options = ", ".join(option for option, limit in limits.items() if limit is not None)
    if not uuid:
        told = _("{options}: only for an NVIDIA GPU, which training would not use here; leave it out")
        raise WishError(told.format(options=options))
    try:
        library = library or importlib.import_module("pynvml")
        library.nvmlInit()
        handle = library.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        read = _Reading(library, handle, wishes, clock)
        read()
    except ModuleNotFoundError:
        told = _(
            "{options}: needs the package nvidia-ml-py: {python} -m pip install nvidia-ml-py, or "
            "uv pip install --python {python} nvidia-ml-py"
        )
        raise WishError(told.format(options=options, python=sys.executable)) from None
    except Exception as error:  # the library's own kind, which is there only with it
        told = _("{options}: NVIDIA's driver does not report it ({error}); leave it out")
        raise WishError(told.format(options=options, error=error)) from None
    return read


class _Reading:
    def __init__(self, library: Any, handle: Any, wishes: Wishes, clock: Callable[[], float]):
        self._library, self._handle, self._wishes, self._clock = library, handle, wishes, clock
        self._energy: tuple[float, float] | None = None  # joules, and when

    def __call__(self) -> Gpu:
        library, wishes = self._library, self._wishes
        heat = library.nvmlDeviceGetTemperature(self._handle, library.NVML_TEMPERATURE_GPU)
        return Gpu(float(heat), None if wishes.max_power is None else self._power())

    def _power(self) -> float | None:
        """Its mean since the last time: a single look may fall between two batches."""
        try:
            energy = self._library.nvmlDeviceGetTotalEnergyConsumption(self._handle) / 1000
        except self._library.NVMLError:  # GPUs before Volta
            return float(self._library.nvmlDeviceGetPowerUsage(self._handle)) / 1000
        before, self._energy = self._energy, (energy, self._clock())
        if before is None or self._energy[1] <= before[1]:
            return None
        return (energy - before[0]) / (self._energy[1] - before[1])
