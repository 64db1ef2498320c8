"""Two seconds after somebody came back nothing is computed: in virtual time, with stand-ins for desktop and kernel."""

import asyncio
import datetime
import os
from collections.abc import Callable
from unittest.mock import Mock

import psutil
import pytest

from tests.trainer.pausing.conftest import Kernel
from tests.trainer.pausing.desktop import Desktop, needs_bus
from trainer.pausing.decision import Cause, Facts, Pause
from trainer.pausing.duty_cycle import Gpu
from trainer.pausing.idleness import LinuxIdleness
from trainer.pausing.machine import Machine
from trainer.pausing.watch import LEAVES_WITHIN, LOOK_EVERY, PauseWatch
from trainer.pausing.wishes import Wishes, when

NOON = datetime.datetime(2026, 11, 26, 12)
UNIX = 1_800_000_000.0
SOON = 2.0  # seconds


class Trainer:
    """A training loop as `trainer/training_loop.py` has it, with layers that take some time each."""

    def __init__(self, watch: PauseWatch, layers: int, layer_seconds: float):
        self._watch, self._layers, self._layer_seconds = watch, layers, layer_seconds
        self.computes = False
        self.batches = 0

    async def look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            self._watch.look()

    async def train(self) -> None:
        while True:
            self.computes = self._watch.pause is None
            if not self.computes:
                await asyncio.sleep(0.05)
                continue
            for _ in range(self._layers):
                await asyncio.sleep(self._layer_seconds)
                if self._watch.pause is not None:
                    break
            else:
                self.batches += 1


async def after(
    machine: Machine, wishes: Wishes, change: Callable[[], None], undo: Callable[[], None], layers: int
) -> None:
    """Something happens at many moments, and each time the trainer pauses soon, and goes on when it is over."""
    watch = PauseWatch(wishes, machine.facts, clock=asyncio.get_running_loop().time, now=lambda: NOON)
    trainer = Trainer(watch, layers, 0.4)
    tasks = [asyncio.ensure_future(trainer.look()), asyncio.ensure_future(trainer.train())]
    for moment in range(10):
        await asyncio.sleep(7.0 + moment * 0.13)
        assert trainer.computes
        batches = trainer.batches
        change()
        await asyncio.sleep(SOON)
        assert not trainer.computes
        await asyncio.sleep(60.0)
        assert not trainer.computes and trainer.batches <= batches + SOON / 0.4
        undo()
        await asyncio.sleep(SOON)
        assert trainer.computes
    assert not any(task.done() for task in tasks)


@needs_bus
@pytest.mark.parametrize("layers", [1, 20], ids=["short batches", "batches of eight seconds"])
async def test_somebody_comes_back_to_the_desktop(desktop: Desktop, kernel: Kernel, layers: int) -> None:
    wishes = Wishes(when("idle"))
    machine = Machine(wishes, idleness=LinuxIdleness(kernel.devices, lambda: UNIX))
    for terminal in kernel.devices.rglob("*"):
        os.utime(terminal, (UNIX - 86400, UNIX))

    def comes() -> None:
        desktop.idle_milliseconds = 20
        desktop.log_in()

    def goes() -> None:
        desktop.idle_milliseconds = 301_000
        desktop.log_in(IdleHint=True, IdleSinceHint=int((UNIX - 301) * 1e6))

    goes()
    await after(machine, wishes, comes, goes, layers)


@pytest.mark.skipif(not psutil.LINUX, reason="these are Linux's interfaces")
@pytest.mark.parametrize("layers", [1, 20], ids=["short batches", "batches of eight seconds"])
async def test_the_charger_is_pulled(kernel: Kernel, layers: int) -> None:
    wishes = Wishes(on_metered=True)
    kernel.has_battery(in_use=False)

    def pulled() -> None:
        kernel.has_battery(in_use=True)

    def plugged() -> None:
        kernel.has_battery(in_use=False)

    await after(Machine(wishes), wishes, pulled, plugged, layers)


@pytest.mark.parametrize(
    ("facts", "cause", "stays"),
    [
        (Facts(is_ordered=True), Cause.ORDER, 600.0),
        (Facts(is_paused_on_page=True), Cause.PAGE, 600.0),
        (Facts(on_battery=True), Cause.BATTERY, 60.0),
        (Facts(is_metered=True), Cause.METERED, 0.0),
    ],
)
def test_for_a_long_pause_the_peer_leaves(facts: Facts, cause: Cause, stays: float) -> None:
    now, seen = 0.0, facts
    watch = PauseWatch(Wishes(), lambda: seen, clock=lambda: now, now=lambda: NOON)
    assert watch.look() is not None and watch.pause is not None and watch.pause.cause is cause
    if stays:
        now = stays - 0.5
        watch.look()
        assert watch.seconds_to_leave is None
    now = stays
    watch.look()
    assert watch.seconds_to_leave == LEAVES_WITHIN
    now = stays + 2 * LEAVES_WITHIN
    assert watch.seconds_to_leave == 0.0
    seen = Facts()
    assert watch.look() is None and watch.seconds_to_leave is None


def test_what_is_wrong_with_the_driver_holds_the_trainer() -> None:
    watch = PauseWatch(Wishes(max_temperature=70.0))
    watch._driver = Mock(side_effect=RuntimeError("it has fallen off the bus"))
    assert watch.duty.may_begin()
    with pytest.raises(RuntimeError):
        watch.measure()
    assert not watch.duty.may_begin()


def test_a_limit_that_cannot_be_held_is_a_pause() -> None:
    now, heat = 0.0, 90.0
    watch = PauseWatch(
        Wishes(max_temperature=70.0, on_battery=True, on_metered=True), clock=lambda: now, now=lambda: NOON
    )
    watch._driver = lambda: Gpu(heat)

    def look() -> Pause | None:
        watch.measure()
        return watch.look()

    for now in range(60):  # noqa: B007  (the clock reads it)
        assert look() is None
    now = 61
    assert look() == Pause(Cause.LIMIT)
    heat = 50.0
    for now in range(62, 90):  # noqa: B007
        look()
    assert watch.pause is None and watch.duty.may_begin()
