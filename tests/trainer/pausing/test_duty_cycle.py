"""Limits of a GPU in virtual time, with a simulated driver: heat comes and goes in its die and in its heatsink."""

import math
from dataclasses import dataclass, field

import pytest

from trainer.pausing.duty_cycle import MEASURE_EVERY, DutyCycle, Gpu
from trainer.pausing.wishes import Wishes

TICK = 0.05  # seconds, for which the training loop sleeps where it may not compute
MINUTES = 15


@dataclass
class SimulatedGpu:
    """Degrees Celsius that its die and its heatsink have above the room, and at most get while it computes."""

    die_rise: float
    die_seconds: float
    sink_rise: float
    sink_seconds: float
    room: float = 25.0
    idle_power: float = 60.0
    full_power: float = 350.0
    die: float = 0.0
    sink: float = 0.0
    joules: float = 0.0

    def advance(self, seconds: float, *, computes: bool) -> None:
        self.die += seconds / self.die_seconds * (self.die_rise * computes - self.die)
        self.sink += seconds / self.sink_seconds * (self.sink_rise * computes - self.sink)
        self.joules += seconds * (self.full_power if computes else self.idle_power)

    @property
    def temperature(self) -> float:
        return self.room + self.die + self.sink


@dataclass
class Course:
    """A training loop with batches of equal length, a driver that is asked now and then, and what came of it."""

    gpu: SimulatedGpu
    wishes: Wishes
    batch: float
    now: float = 0.0
    heat: list[float] = field(default_factory=list)
    computing: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.duty = DutyCycle(self.wishes, lambda: self.now)

    def run(self, seconds: float) -> None:
        left, began, asked_at, joules = 0.0, 0.0, -math.inf, self.gpu.joules
        for _ in range(round(seconds / TICK)):
            if self.now >= asked_at + MEASURE_EVERY - TICK / 2:
                power = (self.gpu.joules - joules) / MEASURE_EVERY if math.isfinite(asked_at) else None
                asked_at, joules = self.now, self.gpu.joules
                self.duty.measured(Gpu(math.floor(self.gpu.temperature), power))
            if left <= TICK / 2 and self.duty.may_begin():
                left, began = self.batch, self.now
            computes = left > TICK / 2
            self.gpu.advance(TICK, computes=computes)
            self.now, left = self.now + TICK, left - TICK
            if computes and left <= TICK / 2:
                self.duty.computed(self.now - began)
            self.heat.append(self.gpu.temperature)
            self.computing.append(computes)

    def share(self, since: int) -> float:
        """Of the time from a tick on in which it has computed."""
        return sum(self.computing[since:]) / len(self.computing[since:])


GPUS = {
    "a large card": SimulatedGpu(15, 5.0, 45, 60.0),
    "with a small heatsink": SimulatedGpu(10, 5.0, 50, 20.0),
    "with water cooling": SimulatedGpu(15, 1.5, 40, 180.0),
    "in a hot room": SimulatedGpu(8, 2.0, 40, 60.0, room=38.0),
    "of a laptop": SimulatedGpu(4, 1.5, 50, 20.0, room=30.0),
}


@pytest.mark.parametrize("batch", [0.1, 1.0])
@pytest.mark.parametrize("limit", [60.0, 70.0])
@pytest.mark.parametrize("name", GPUS)
def test_a_limit_of_temperature_is_held_within_two_degrees(name: str, limit: float, batch: float) -> None:
    gpu = SimulatedGpu(**vars(GPUS[name]))
    assert gpu.room + gpu.die_rise + gpu.sink_rise > limit, "it would get hotter"
    course = Course(gpu, Wishes(max_temperature=limit), batch)
    course.run(60 * MINUTES)
    assert max(course.heat) <= limit + 2.0
    late = course.heat[len(course.heat) // 2 :]
    ten_seconds = round(10 / TICK)
    peaks = [max(late[start : start + ten_seconds]) for start in range(0, len(late), ten_seconds)]
    assert min(peaks) >= limit - 2.0, "nor is it cooler than it need be"


def test_a_room_that_gets_warmer_and_a_limit_that_cannot_be_reached() -> None:
    gpu = SimulatedGpu(**vars(GPUS["a large card"]))
    course = Course(gpu, Wishes(max_temperature=70.0), 0.2)
    for minute in range(MINUTES):
        gpu.room = 25.0 + 8.0 * math.sin(minute / 3)
        course.run(60)
    assert max(course.heat) <= 72.0
    cool = Course(SimulatedGpu(5, 2.0, 20, 60.0), Wishes(max_temperature=70.0), 0.2)
    cool.run(600)
    assert cool.share(len(cool.computing) // 4) == 1.0, "a GPU that stays cool computes all the time"


@pytest.mark.parametrize("batch", [0.1, 1.0])
@pytest.mark.parametrize("limit", [100.0, 200.0, 300.0])
def test_a_limit_of_power_is_held_on_average(limit: float, batch: float) -> None:
    course = Course(SimulatedGpu(**vars(GPUS["a large card"])), Wishes(max_power=limit), batch)
    course.run(300)
    joules, half = course.gpu.joules, len(course.computing)
    course.run(300)
    assert (course.gpu.joules - joules) / 300 == pytest.approx(limit, rel=0.03)
    assert course.share(half) == pytest.approx((limit - 60) / 290, abs=0.03)


@pytest.mark.parametrize("batch", [0.05, 0.35, 1.0])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_a_share_of_the_time(share: float, batch: float) -> None:
    course = Course(SimulatedGpu(**vars(GPUS["a large card"])), Wishes(share=share), batch)
    course.run(600)
    assert course.share(0) == pytest.approx(share, abs=0.01)


def test_a_driver_that_tells_nothing_any_more_holds_no_limit_so_nothing_is_computed() -> None:
    course = Course(SimulatedGpu(**vars(GPUS["a large card"])), Wishes(max_temperature=70.0), 0.2)
    course.run(10)
    course.duty.lost()
    assert not course.duty.may_begin()
    course.duty.measured(Gpu(40.0))
    course.now += 1.0
    assert course.duty.may_begin()
