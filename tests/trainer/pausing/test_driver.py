"""What NVIDIA's driver tells, by a stand-in for its library."""

import sys

import pytest

from trainer.pausing.driver import driver_of
from trainer.pausing.wishes import WishError, Wishes

UUID = "8a5b2c1d-0000-0000-0000-000000000000"


class Library:
    """The part of `pynvml` that is used."""

    NVML_TEMPERATURE_GPU = 0

    class NVMLError(Exception):
        """As the library's own."""

    def __init__(self, *, is_old: bool = False, fails: bool = False):
        self.is_old, self.fails = is_old, fails
        self.millijoules, self.degrees = 5_000_000, 61

    def nvmlInit(self) -> None:  # noqa: N802
        if self.fails:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        return uuid

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:  # noqa: N802
        assert handle == f"GPU-{UUID}" and sensor == self.NVML_TEMPERATURE_GPU
        return self.degrees

    def nvmlDeviceGetTotalEnergyConsumption(self, _handle: str) -> int:  # noqa: N802
        if self.is_old:
            raise self.NVMLError("Not Supported")
        return self.millijoules

    def nvmlDeviceGetPowerUsage(self, _handle: str) -> int:  # noqa: N802
        return 123_000


def test_power_is_a_mean_between_two_looks() -> None:
    library, now = Library(), 10.0
    read = driver_of(UUID, Wishes(max_power=200.0), lambda: now, library)
    library.millijoules += 75_000
    library.degrees = 62
    now = 10.5
    told = read()
    assert (told.temperature, told.power) == (62.0, 150.0)
    assert read().power is None, "no time has passed"
    old = driver_of(UUID, Wishes(max_power=200.0), lambda: now, Library(is_old=True))
    assert old().power == 123.0
    assert driver_of(UUID, Wishes(max_temperature=70.0), lambda: now, library)().power is None


def test_a_limit_that_cannot_be_held_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    wishes = Wishes(max_temperature=70.0)
    with pytest.raises(WishError, match=r"--max-temperature: only for an NVIDIA GPU, .* leave it out"):
        driver_of("", wishes, lambda: 0.0, Library())
    with pytest.raises(WishError, match=r"does not report it \(Driver Not Loaded\)"):
        driver_of(UUID, wishes, lambda: 0.0, Library(fails=True))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(WishError, match="-m pip install nvidia-ml-py"):
        driver_of(UUID, wishes, lambda: 0.0)
