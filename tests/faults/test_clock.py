"""The clock of a trainer is two minutes off, from the start or suddenly: the others do not mind."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.faulty_swarm import FaultySwarm
from tests.peers.small_swarm import text_of

pytestmark = pytest.mark.swarm
STEP_SAMPLES = 4096  # some three seconds of two trainers
OFF = 120  # seconds
FAKETIME = Path("/usr/lib")  # below it the library of Debian's package lies


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[tuple[dict[str, str], Callable[[int], None]]]:
    """An environment for a process, and a way to put its clock forward or back while it runs, by so many seconds."""
    libraries = sorted(FAKETIME.glob("*/faketime/libfaketimeMT.so.1"))
    if not libraries:
        pytest.skip("a clock of its own needs Debian's package faketime; as root: make faketime")
    file = tmp_path / "clock"

    def put(seconds: int) -> None:
        file.write_text(f"{seconds:+d}\n")

    put(0)
    yield (
        {
            "LD_PRELOAD": str(libraries[0]),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        },
        put,
    )


@pytest.fixture
def swarm(corpus: Path, tokenizer_folder: Path, tmp_path: Path) -> Iterator[FaultySwarm]:
    """A coordinator and a trainer with good clocks."""
    (tmp_path / "run").mkdir()
    swarm = FaultySwarm(tmp_path / "run", corpus, tokenizer_folder, target_batch_size=STEP_SAMPLES)
    try:
        swarm.coordinator()
        swarm.trainer("asha")
        yield swarm
    finally:
        swarm.kill_all()


@pytest.mark.parametrize("seconds", [OFF, -OFF])
def test_a_clock_that_goes_wrong_while_training(
    swarm: FaultySwarm, clock: tuple[dict[str, str], Callable[[int], None]], seconds: int
):
    environment, put = clock
    bela = swarm.trainer("bela", by_command=True, environment=environment)
    swarm.wait(lambda: swarm.both_since(0), "global step of both trainers")
    put(seconds)
    before = swarm.newest()
    swarm.wait(lambda: swarm.newest() >= before + 4, "global steps with a clock that is wrong")
    put(0)
    swarm.wait(lambda: swarm.both_since(swarm.newest()), "global step of both trainers")
    assert "Traceback" not in text_of(bela) + text_of(swarm.living("asha"))


@pytest.mark.parametrize("seconds", [OFF, -OFF])
def test_a_clock_that_is_wrong_from_the_start(
    swarm: FaultySwarm, clock: tuple[dict[str, str], Callable[[int], None]], seconds: int
):
    environment, put = clock
    put(seconds)
    bela = swarm.trainer("bela", by_command=True, environment=environment)
    before = swarm.newest()
    swarm.wait(lambda: bela.process.poll() is not None, "end of the trainer")
    assert bela.process.wait() != 0
    (line,) = text_of(bela).strip().splitlines()
    assert "no initial peer answers" in line and "this machine's clock" in line
    swarm.wait(lambda: swarm.newest() >= before + 2, "global steps of the other")
