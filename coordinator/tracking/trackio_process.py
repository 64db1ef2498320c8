"""A process that hands figures on to Trackio: its standard input has an `Opening`, then pairs of a step and figures."""

import json
import os
import select
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 600.0  # seconds between two attempts to begin
PATIENCE = 60.0  # seconds to send what is left; figures that Trackio cannot send by then it keeps after 35


class Opening(NamedTuple):
    """Which curve figures belong to, and where it is drawn."""

    project: str
    name: str
    config: dict[str, Any]
    folder: str  # where figures wait that could not be sent
    server_url: str | None
    space_id: str | None  # OWNER/NAME
    token: str  # the server's, or the Hub's


def main(lines: Iterable[str]) -> None:
    """Leave a process behind that works until the input ends, and a minute longer at most."""
    if os.fork():
        os._exit(0)
    lines = iter(lines)
    try:
        opening = Opening(**json.loads(next(lines)))
        # Set after the start, so that no list of processes shows it.
        os.environ["HF_TOKEN" if opening.space_id else "TRACKIO_WRITE_TOKEN"] = opening.token
        os.environ["TRACKIO_DIR"] = opening.folder
        warnings.formatwarning = lambda message, *_, **__: f"{str(message).splitlines()[0]}\n"
        import trackio

        begin = partial(
            trackio.init,
            opening.project,
            name=opening.name,
            server_url=opening.server_url,
            space_id=opening.space_id,
            resume="allow",
            config=opening.config,
            embed=False,
            auto_log_cpu=False,  # nothing about the machine is sent
            auto_log_gpu=False,
        )
        curve = begun(begin, input_ends_within)
        for line in lines:
            step, figures = json.loads(line)
            curve.log(figures, step=step)
        end = threading.Timer(PATIENCE, os._exit, [1])
        end.daemon = True
        end.start()
        curve.finish()
    except Exception as error:
        sys.exit(str(error))


def begun(begin: Callable[[], Any], ends_within: Callable[[float], bool]) -> Any:
    """What `begin` returns, tried with growing pauses; figures wait in the input meanwhile.

    Args:
        ends_within: waits so many seconds for the input's end, after which there is one last attempt.
    """
    pause, is_last, is_told = FIRST_PAUSE, False, False
    while True:
        try:
            return begin()
        except Exception as error:
            if is_last:
                raise
            if not is_told:
                is_told = True
                warnings.warn(f"figures wait, and it is tried again: {error}", stacklevel=1)
        is_last = ends_within(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def input_ends_within(seconds: float) -> bool:
    """Wait at most so long for the coordinator to close the input, of which nothing is read."""
    hung_up = select.poll()
    hung_up.register(sys.stdin, 0)  # that it was closed is told in any case
    return bool(hung_up.poll(1000 * seconds))


if __name__ == "__main__":
    main(sys.stdin)
