"""A process that hands figures on to Trackio: its standard input has an `Opening`, then pairs of a step and figures."""

import json
import os
import sys
import threading
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

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

        curve = trackio.init(
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
        for line in lines:
            step, figures = json.loads(line)
            curve.log(figures, step=step)
        end = threading.Timer(PATIENCE, os._exit, [1])
        end.daemon = True
        end.start()
        curve.finish()
    except Exception as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.stdin)
