"""What hivemind's processes have begun is not taken away by the garbage collection while it waits."""

import asyncio
import gc
import socket
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from swarm.leaving import end_process
from tests.support.forked import runs_well
from tests.support.passes import lone_node
from tests.support.waiting import PATIENCE

ANSWER = b"here it is"


@pytest.mark.swarm
def test_a_question_is_answered_though_garbage_is_collected_meanwhile(tmp_path: Path):
    runs_well(ask, tmp_path)


def ask(folder: Path) -> None:
    """Have the DHT node wait at a socket as it does at libp2p's daemon, and collect its garbage."""
    dht = lone_node(folder)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))
        server.listen()
        answer = dht.run_coroutine(partial(read, path=str(folder / "socket")), return_future=True)
        connection, _ = server.accept()
        with connection:
            time.sleep(1.0)  # it waits for the answer now
            dht.run_coroutine(collect)
            connection.sendall(ANSWER)
            assert answer.result(PATIENCE / 2) == ANSWER
    dht.shutdown()
    end_process()


async def read(_dht: Any, _node: Any, path: str) -> bytes:
    """What is said at a socket."""
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        return await reader.readexactly(len(ANSWER))
    finally:
        writer.close()


async def collect(_dht: Any, _node: Any) -> int:
    """Collect all garbage of the process."""
    return gc.collect()
