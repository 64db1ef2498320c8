"""When a silent DHT is told of and given up, by a clock that the test sets, and what becomes of a real one."""

import itertools
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest

import swarm.dht.liveness
from swarm.dht.liveness import DHT_SILENCE, LATE, LOOK_EVERY, DHTWatch, Silence, describe_end
from swarm.leaving import end_process
from tests.support.forked import runs_well
from tests.support.passes import lone_node


class Looking:
    """Someone who looks at a DHT every `LOOK_EVERY` seconds."""

    def __init__(self) -> None:
        self.now, self.lines = 1000.0, list[str]()
        self.silence = Silence(self.now)

    def look(self, answers: Iterable[bool], after: float = LOOK_EVERY) -> None:
        for answered in answers:
            self.now += after
            line = self.silence.look(self.now, answered=answered)
            self.lines += [line] if line else []

    def wait(self, seconds: float) -> None:
        """In silence."""
        self.look(itertools.repeat(False, round(seconds / LOOK_EVERY)))


@pytest.fixture
def looking() -> Looking:
    return Looking()


def test_nothing_is_said_of_a_dht_that_answers_now_and_then(looking: Looking):
    for _ in range(100):
        looking.wait(LATE - LOOK_EVERY)
        assert not looking.silence.is_late
        looking.look([True])
    assert not looking.lines


def test_silence_is_told_once_and_then_given_up(looking: Looking):
    looking.wait(LATE)
    assert looking.silence.is_late
    silent = "the part of this program that finds other peers (the DHT) has not answered for 15 s"
    assert looking.lines == [f"problem: {silent}; the program will stop if this lasts 60 s"]
    looking.wait(DHT_SILENCE - LATE - LOOK_EVERY)
    assert not looking.silence.is_too_long
    looking.wait(LOOK_EVERY)
    assert looking.silence.is_too_long
    assert len(looking.lines) == 1
    assert str(looking.silence) == "the part of this program that finds other peers (the DHT) has not answered for 60 s"


def test_a_dht_that_comes_back_in_time_has_all_the_time_again(looking: Looking):
    for _ in range(3):
        looking.wait(DHT_SILENCE - LOOK_EVERY)
        assert not looking.silence.is_too_long
        looking.look([True])
        assert not looking.silence.is_late
        assert looking.lines.pop() == "The DHT answers again, after 59 s."
        looking.lines.pop()
    assert not looking.lines


def test_a_peer_that_was_frozen_as_a_whole_does_not_blame_its_dht(looking: Looking):
    looking.look([True])
    looking.look([False], after=86400.0)
    looking.wait(LATE - 3 * LOOK_EVERY)
    assert not looking.silence.is_late
    assert not looking.lines


def test_how_a_process_has_ended_is_told():
    assert describe_end(-9) == "the process of this peer's DHT was killed by SIGKILL"
    assert describe_end(0) == "the process of this peer's DHT ended (status 0)"


@pytest.mark.swarm
def test_threads_that_write_to_a_dht_go_on_when_it_is_given_up(tmp_path: Path):
    runs_well(write_to_a_frozen_dht, tmp_path)


def write_to_a_frozen_dht(folder: Path) -> None:
    swarm.dht.liveness.DHT_SILENCE = 2.0
    dht = lone_node(folder)
    node = psutil.Process(dht.pid)
    (daemon,) = node.children()
    node.suspend()
    content = bytes(2**20)  # more than the pipe holds
    writers = [threading.Thread(target=dht.store, args=("key", content, 1e9, None, True)) for _ in range(3)]
    for one in writers:
        one.start()
    given_up, said = threading.Event(), list[str]()
    watch = DHTWatch(dht, said.append, given_up.set)
    assert given_up.wait(60.0)
    assert said == [f"problem: {watch.trouble}; the program is stopping, so start it again"]
    for one in writers:
        one.join(60.0)
    assert not any(one.is_alive() for one in writers)
    assert not dht.is_alive()
    while daemon.is_running() and daemon.status() != psutil.STATUS_ZOMBIE:  # a child of nobody's, or of a lazy parent's
        time.sleep(0.1)
    end_process()
