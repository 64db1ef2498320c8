"""What is read of this machine: from a message bus on which stand-ins answer, and from files as the kernel has them."""

import os
import sys
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from tests.trainer.pausing.conftest import Kernel
from tests.trainer.pausing.desktop import Desktop, needs_bus
from trainer.pausing import idleness
from trainer.pausing.idleness import LinuxIdleness
from trainer.pausing.machine import Machine, on_battery
from trainer.pausing.wishes import WishError, Wishes, when

NOW = 1_800_000_000.0  # unix seconds
linux = pytest.mark.skipif(not psutil.LINUX, reason="these are Linux's interfaces")


def typed(terminal: Path, ago: float) -> None:
    """Somebody has typed there, and something was written there since."""
    os.utime(terminal, (NOW - ago, NOW))


@pytest.fixture
def quiet(kernel: Kernel) -> Kernel:
    for terminal in kernel.devices.rglob("*"):
        typed(terminal, 7200.0)
    return kernel


def test_a_pause_file_may_be_named_by_the_home_folder_and_be_of_another_user(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    machine = Machine(Wishes(on_battery=True, on_metered=True), order=Path("~/pause"))
    assert not machine.facts().is_ordered
    (tmp_path / "pause").touch()
    assert machine.facts().is_ordered
    with monkeypatch.context() as theirs:
        theirs.setattr(os, "stat", Mock(side_effect=PermissionError(13, "Permission denied")))
        assert not machine.facts().is_ordered


def test_a_machine_without_a_bus_does_not_tell(quiet: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={quiet.devices}/no-bus")
    assert LinuxIdleness(quiet.devices, lambda: NOW)() is None


@needs_bus
def test_without_a_desktop_the_terminals_tell(quiet: Kernel, desktop: Desktop) -> None:
    idle = LinuxIdleness(quiet.devices, lambda: NOW)
    assert idle() == 7200.0
    typed(quiet.devices / "pts/1", 600.0)
    assert idle() == 600.0
    typed(quiet.devices / "tty1", 2.0)
    assert idle() == 2.0
    typed(quiet.devices / "pts/0", -5.0)
    assert idle() == 0.0, "clocks may differ"


@needs_bus
def test_of_a_desktop_the_most_exact_source_tells(quiet: Kernel, desktop: Desktop, has_gnome: bool) -> None:
    idle = LinuxIdleness(quiet.devices, lambda: NOW)
    assert idle() == 7200.0, "nobody is logged in at the screen"
    desktop.log_in(Type="tty")
    desktop.log_in("/session/greeter", Class="greeter")
    desktop.log_in("/session/old", State="closing")
    assert idle() == 7200.0
    desktop.idle_milliseconds = 1500
    desktop.log_in()
    assert idle() == (1.5 if has_gnome else 0.0)
    desktop.idle_milliseconds = 400_000
    desktop.log_in(IdleHint=True, IdleSinceHint=int((NOW - 300.0) * 1e6))
    assert idle() == (400.0 if has_gnome else 300.0)
    desktop.idle_milliseconds = 10_000_000
    desktop.log_in(LockedHint=True)
    assert idle() == 7200.0, "then terminals tell"
    typed(quiet.devices / "pts/0", 3.0)
    assert idle() == 3.0


@needs_bus
def test_a_session_of_another_person_is_known_by_logind_alone(quiet: Kernel, desktop: Desktop) -> None:
    desktop.idle_milliseconds = 9_000_000
    desktop.log_in(User=(os.getuid() + 1, "/user"))
    assert LinuxIdleness(quiet.devices, lambda: NOW)() == 0.0


@needs_bus
def test_a_desktop_that_answers_no_more_may_be_in_use(quiet: Kernel, desktop: Desktop) -> None:
    desktop.log_in(IdleHint=True, IdleSinceHint=0)
    idle = LinuxIdleness(quiet.devices, lambda: NOW)
    assert idle() is not None
    desktop.sessions["/session/strange"] = None
    assert idle() is None


@needs_bus
@pytest.mark.parametrize(("says", "is_metered"), [(0, False), (1, True), (2, False), (3, True), (4, False)])
def test_a_connection_that_costs(desktop: Desktop, says: int, is_metered: bool) -> None:
    desktop.metered = says
    assert Machine(Wishes()).facts().is_metered is is_metered
    assert not Machine(Wishes(on_metered=True)).facts().is_metered


@linux
def test_a_battery(kernel: Kernel) -> None:
    assert not on_battery()
    kernel.has_battery(in_use=False)
    assert not on_battery()
    kernel.has_battery(in_use=True)
    assert on_battery()
    assert Machine(Wishes()).facts().on_battery
    assert not Machine(Wishes(on_battery=True)).facts().on_battery
    kernel.has_battery(in_use=False)
    kernel.has_mouse()
    assert not on_battery(), "a mouse gives no power to the machine"
    kernel.has_battery(in_use=True)
    assert on_battery(), "nor is it a charger"
    (kernel.supplies / "BAT0" / "status").write_text("nonsense")
    (kernel.supplies / "BAT0" / "energy_now").write_text("nonsense")
    assert not on_battery(), "drivers say all sorts of things"


def test_only_what_is_wished_for_is_asked() -> None:
    asked: list[str] = []

    def idle() -> float:
        asked.append("idle")
        return 1.0

    machine = Machine(Wishes(), idleness=idle)
    machine.check()
    assert machine.facts().idle is None and not asked
    machine = Machine(Wishes(when("idle")), idleness=idle)
    assert machine.facts().idle == 1.0 and asked


def test_a_machine_that_does_not_tell_is_no_machine_for_idle_hours() -> None:
    with pytest.raises(WishError, match="does not tell whether somebody uses it; name hours instead"):
        Machine(Wishes(when("night,idle")), idleness=lambda: None).check()
    Machine(Wishes(when("night")), idleness=lambda: None).check()


def test_a_file_orders_a_pause(tmp_path: Path) -> None:
    machine = Machine(Wishes(), order=tmp_path / "pause")
    assert not machine.facts().is_ordered
    (tmp_path / "pause").touch()
    assert machine.facts().is_ordered and not machine.facts().is_paused_on_page
    assert Machine(Wishes(), on_page=lambda: True).facts().is_paused_on_page


def test_macs_show_it_in_nanoseconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idleness, "IOREG", (sys.executable, "-c", "print('  |   \"HIDIdleTime\" = 2500000000')"))
    assert idleness.mac_idleness() == 2.5
    monkeypatch.setattr(idleness, "IOREG", (sys.executable, "-c", "print('no such thing')"))
    assert idleness.mac_idleness() is None
    monkeypatch.setattr(idleness, "IOREG", (str(tmp_path / "ioreg"),))
    assert idleness.mac_idleness() is None
