"""A machine's clock is two minutes off, from the start or suddenly: the swarm goes by its own time."""

import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.faulty_swarm import FaultySwarm
from tests.support.small_swarm import text_of

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
STEP_SAMPLES = 8192  # some four seconds of two trainers
OFF = 120  # seconds
SOURCE = Path(__file__).with_name("wrong_clock.c")
Clock = tuple[dict[str, str], Callable[[int], None]]


@pytest.fixture(scope="module")
def wrong_clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that gives a process a clock of its own."""
    if sys.platform != "linux" or shutil.which("gcc") is None:
        pytest.skip("a clock of its own needs Linux and gcc")
    library = tmp_path_factory.mktemp("clock") / "wrong_clock.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, SOURCE], check=True)
    return library


@pytest.fixture
def clock(wrong_clock: Path, tmp_path: Path) -> Clock:
    """An environment for a process, and a way to put its clock forward or back while it runs, by so many seconds."""
    file = tmp_path / "clock"
    file.write_bytes(struct.pack("q", 0))

    def put(seconds: int) -> None:
        with file.open("r+b") as mapped:
            mapped.write(struct.pack("q", seconds))

    return {"LD_PRELOAD": str(wrong_clock), "WRONG_CLOCK": str(file)}, put


@pytest.fixture
def swarm(corpus: Path, tokenizer_folder: Path, tmp_path: Path) -> Iterator[FaultySwarm]:
    """Nobody is there yet."""
    (tmp_path / "run").mkdir()
    swarm = FaultySwarm(tmp_path / "run", corpus, tokenizer_folder, target_batch_size=STEP_SAMPLES)
    try:
        yield swarm
    finally:
        swarm.kill_all()


@pytest.mark.parametrize(("whose", "seconds"), [("bela", OFF), ("bela", -OFF), ("coordinator", OFF)])
def test_a_clock_that_goes_wrong_harms_nothing(swarm: FaultySwarm, clock: Clock, whose: str, seconds: int):
    environment, put = clock
    swarm.coordinator(by_command=whose == "coordinator", environment=environment if whose == "coordinator" else {})
    swarm.trainer("asha")
    swarm.trainer("bela", by_command=whose == "bela", environment=environment if whose == "bela" else {})
    swarm.wait(lambda: swarm.both_since(0), "global step of both trainers")
    put(seconds)
    swarm.wait_until_recovered(swarm.newest())
    before = swarm.newest()
    swarm.wait(lambda: swarm.newest() >= before + 4, "global steps with a clock that is wrong")
    swarm.wait_until_recovered(before + 2)
    put(0)
    swarm.wait_until_recovered(swarm.newest())
    swarm.wait_for_agreement()
    if whose == "coordinator":
        assert "put forward by 120 s" in text_of(swarm.living("coordinator"))


def test_whoever_comes_with_a_wrong_clock_is_told(swarm: FaultySwarm, clock: Clock):
    environment, put = clock
    put(OFF + 10)  # it is measured to a second or two
    swarm.coordinator()
    bela = swarm.trainer("bela", by_command=True, environment=environment)
    swarm.wait(lambda: bela.process.poll() is not None, "end of the trainer")
    assert bela.process.wait() != 0
    (line,) = text_of(bela).strip().splitlines()
    assert "this machine's clock is 2 minutes ahead of the coordinator's" in line
