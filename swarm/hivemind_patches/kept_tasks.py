"""Tasks of hivemind's event loops, kept until they are done.

asyncio refers to a task weakly, and so does a stream's protocol to its reader. Whoever waits for an answer of libp2p's
daemon is often referred to by nothing else: then the garbage collection may take the task away while it waits. Upstream
keeps no reference to what it begins for other processes, so now and then one of their questions to the DHT was never
answered.

What serves a stream of another peer is not kept: its connection has it, and it ends with that. Kept, a stranger could
leave behind handlers that wait for ever.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

import hivemind.dht.dht

_upstreams = hivemind.dht.dht.switch_to_uvloop
_tasks: set["asyncio.Task[Any]"] = set()


def keep_tasks() -> None:
    """Have hivemind's processes that are forked from now on keep their tasks."""
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
