"""Commands to hivemind's processes and their answers arrive whole, however long and however many."""

import multiprocessing
import random
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from swarm import clock
from swarm.leaving import end_process
from tests.support.forked import runs_well
from tests.support.passes import lone_node
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.swarm
MIB = 2**20
COMMANDS, THREADS = 40, 4  # of each thread, and of a process: two hundred in all
ANSWER_WITHIN = PATIENCE / 2


def test_two_hundred_long_commands_are_all_understood_by_a_busy_node(tmp_path: Path):
    runs_well(send_commands, tmp_path)


def test_long_answers_of_a_node_come_back_whole(tmp_path: Path):
    runs_well(ask_for_answers, tmp_path)


def send_commands(folder: Path) -> None:
    """From threads and from a process, while other threads store and get."""
    dht = lone_node(folder)
    assert dht.run_coroutine(checksum_of(b"short")) == zlib.crc32(b"short")
    other = multiprocessing.get_context("fork").Process(target=send, args=(dht, COMMANDS, THREADS))
    other.start()
    sent = threading.Event()
    busy = threading.Thread(target=keep_busy, args=(dht, sent))
    busy.start()
    try:
        in_threads(lambda number: send(dht, COMMANDS, number))
        other.join(PATIENCE)
        assert other.exitcode == 0
    finally:
        sent.set()
    busy.join(ANSWER_WITHIN)
    assert not busy.is_alive()
    dht.shutdown()
    end_process()


def ask_for_answers(folder: Path) -> None:
    """More at once than the pipe holds, to several threads."""
    dht = lone_node(folder)

    def ask(number: int) -> None:
        answers = [dht.run_coroutine(partial(repeated, byte=number + i), return_future=True) for i in range(50)]
        for i, answer in enumerate(answers):
            assert answer.result(ANSWER_WITHIN) == bytes([number + i]) * MIB

    in_threads(ask)
    dht.shutdown()
    end_process()


def in_threads(work: Callable[[int], None]) -> None:
    """Do this in some threads, each with a number; raises what one of them raises."""
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            for done in [pool.submit(work, number) for number in range(THREADS)]:
                done.result(PATIENCE)
        except BaseException as error:
            print(repr(error), flush=True)  # noqa: T201
            end_process(1)  # the other threads may wait for ever


def send(dht: Any, times: int, seed: int) -> None:
    """Commands of 1 MiB, some of them on the way at a time, each with another content."""
    content = random.Random(seed).randbytes(MIB)
    for number in range(0, times, 5):
        contents = [content[i:] + content[:i] for i in range(number, number + 5)]
        answers = [dht.run_coroutine(checksum_of(one), return_future=True) for one in contents]
        for one, answer in zip(contents, answers, strict=True):
            assert answer.result(ANSWER_WITHIN) == zlib.crc32(one)


def keep_busy(dht: Any, until: threading.Event) -> None:
    """Have it store and find what it was told, a few things at a time."""
    while not until.is_set():
        names = [f"name-{i}" for i in range(5)]
        stored = [dht.store(one, one * 100, clock.now() + 100.0, return_future=True) for one in names]
        assert all(one.result(ANSWER_WITHIN) for one in stored)
        found = [dht.get(one, return_future=True) for one in names]
        assert [one.result(ANSWER_WITHIN).value for one in found] == [one * 100 for one in names]


def checksum_of(content: bytes) -> Callable[..., Any]:
    """A command that carries this content, and answers with its checksum."""
    return partial(checksum, content=content)


async def checksum(_dht: Any, _node: Any, content: bytes) -> int:
    """In the node's process."""
    return zlib.crc32(content)


async def repeated(_dht: Any, _node: Any, byte: int) -> bytes:
    """In the node's process."""
    return bytes([byte]) * MIB
