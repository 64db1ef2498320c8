from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trainer.pausing.desktop import Desktop, running_desktop


class Kernel:
    """A stand-in for what the kernel shows of power supplies and terminals, in files."""

    def __init__(self, folder: Path):
        self.supplies, self.devices = folder / "power_supply", folder / "dev"
        for terminal in ("pts/0", "pts/1", "pts/ptmx", "tty", "tty1"):
            (self.devices / terminal).parent.mkdir(parents=True, exist_ok=True)
            (self.devices / terminal).touch()
        self.supplies.mkdir()

    def has_battery(self, *, in_use: bool) -> None:
        """The machine is a laptop, whose charger is plugged in or not."""
        status = "Discharging" if in_use else "Charging"
        battery = {
            "type": "Battery",
            "status": status,
            "capacity": "80",
            "energy_now": "8",
            "energy_full": "10",
            "power_now": "1",
        }
        self._show(BAT0=battery, AC0={"type": "Mains", "online": str(int(not in_use))})

    def has_mouse(self) -> None:
        """A wireless one, whose battery is in use."""
        self._show(hidpp_battery_0={"type": "Battery", "scope": "Device", "status": "Discharging", "online": "1"})

    def _show(self, **supplies: dict[str, str]) -> None:
        for folder, files in supplies.items():
            (self.supplies / folder).mkdir(exist_ok=True)
            for name, content in files.items():
                (self.supplies / folder / name).write_text(f"{content}\n")


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    stand_in = Kernel(tmp_path)
    monkeypatch.setattr("trainer.pausing.machine.SUPPLIES", stand_in.supplies)
    return stand_in


@pytest.fixture(params=[True, False], ids=["GNOME", "another desktop"])
def has_gnome(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_gnome: bool) -> Iterator[Desktop]:
    with running_desktop(tmp_path, has_gnome=has_gnome) as one:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", one.address)
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", one.address)
        monkeypatch.setattr("trainer.pausing.bus.PATIENCE", 60.0)  # however busy this machine is
        yield one
