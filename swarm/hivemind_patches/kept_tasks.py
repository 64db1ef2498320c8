"""Tasks of hivemind's event loops are kept until they are done.

asyncio holds only weak references to tasks, and a stream's protocol only one to its reader. Upstream keeps no reference
to the tasks that it starts for other processes, so the garbage collector may remove one while it waits for libp2p's
daemon: now and then a question to the DHT was never answered.

Tasks that serve a stream of another peer are not kept: the connection holds them, and they end with it. If they were
kept, other peers could leave behind handlers that wait for ever.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

import hivemind.dht.dht

_upstreams = hivemind.dht.dht.switch_to_uvloop
_tasks: set["asyncio.Task[Any]"] = set()


def keep_tasks() -> None:
    """For processes of hivemind that are forked from now on."""
    hivemind.dht.dht.switch_to_uvloop = _begin_loop


def _begin_loop() -> asyncio.AbstractEventLoop:
    loop = _upstreams()
    loop.set_task_factory(_kept)
    return loop


def _kept(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **named: Any) -> "asyncio.Task[Any]":
    task = asyncio.Task(coroutine, loop=loop, **named)
    if not _serves_a_stream(coroutine):
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)
    return task


def _serves_a_stream(coroutine: Coroutine[Any, Any, Any]) -> bool:
    frame = getattr(coroutine, "cr_frame", None)
    return frame is not None and str(frame.f_globals.get("__name__")).startswith("hivemind.p2p.")
