"""Commands to hivemind's DHT process arrive whole, whatever their size and however many senders there are.

Upstream's DHT reads commands from a `multiprocessing` pipe that its event loop watches. uvloop makes the reading end
non-blocking for that, so `Connection.recv` gives up in the middle of a message that is still arriving; the rest is then
taken for the length of the next one, and no command is understood any more. Senders, threads or processes, do not
exclude each other either: while one waits for room in the pipe, another one may write into the middle of its message.
Commands of up to 16 KiB, which are written at once, mostly survived both; a session record or notices may be larger.

Here the reader waits for the rest of a message, and senders take a lock. Results come back through another pipe
(`MPFuture`), which a thread reads without an event loop and whose senders share a lock: it is not changed.
"""

import multiprocessing
import os
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any


class Whole:
    """One end of a pipe, with as much of `Connection` as hivemind uses.

    If a process dies in the middle of sending, the pipe is broken for the others: `DHTWatch` finds that out.
    """

    def __init__(self, end: "Connection[Any, Any]"):
        """Make it before the processes that share it are forked: they share the senders' lock, too."""
        self._end, self._senders = end, multiprocessing.Lock()
        self.fileno, self.poll, self.close = end.fileno, end.poll, end.close

    def send(self, message: object) -> None:
        """As `Connection.send`."""
        pickled = ForkingPickler.dumps(message)
        with self._senders:
            self._end.send_bytes(pickled)

    def recv(self) -> Any:
        """As `Connection.recv`; waits for a sender that is not through. Writing stays as the event loop has it."""
        blocking = os.get_blocking(self.fileno())
        os.set_blocking(self.fileno(), True)
        try:
            return self._end.recv()
        finally:
            os.set_blocking(self.fileno(), blocking)

    def discard(self) -> None:
        """Read and forget what others write, for as long as they may write."""
        os.set_blocking(self.fileno(), True)
        while os.read(self.fileno(), 2**16):
            pass


class WholeMessages:
    """A mixin for hivemind's DHT: its pipes are `Whole`. It stands before it among the bases."""

    _inner_pipe: Any
    _outer_pipe: Any

    def start(self) -> None:
        """See upstream."""
        self._inner_pipe, self._outer_pipe = Whole(self._inner_pipe), Whole(self._outer_pipe)
        super().start()  # type: ignore[misc]

    def forget_commands(self) -> None:
        """Once its process is gone: let no thread wait for room to write a command. Returns when this peer ends."""
        self._inner_pipe.discard()
