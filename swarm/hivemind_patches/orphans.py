"""Helper processes end when the process that started them is gone.

Upstream's helpers (the DHT node, libp2p's daemon) end only when their parent ends in good order. After a SIGKILL they
would stay, keep the port and the identity, and answer for a peer that is gone.
"""

import contextlib
import os
import signal
import threading
import time

import psutil

LOOK_EVERY = 0.5  # seconds


def end_with_parent() -> None:
    """Called in a helper process: end it, and what it has started, soon after its parent has ended."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_EVERY)
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
