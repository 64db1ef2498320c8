"""A benchmark as a command: it is stopped safely, and what is foreseen ends in one line."""

import os
import signal
import sys
from collections.abc import Callable

import typer

from swarm.errors import SahajError


def run(main: Callable[..., None]) -> None:
    """Run `main` with options from the command line; SIGTERM ends it as Ctrl-C does, peers and all."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        typer.run(main)
    except SahajError as error:
        typer.echo(f"benchmark: {error}", err=True)
        sys.exit(error.exit_status)


def two_cores() -> tuple[int, int]:
    """Two cores that this process may use, for sides that have one each.

    Raises:
        SahajError: there is only one.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise SahajError("this benchmark gives each side a core of its own; it needs a machine with two")
    return allowed[0], allowed[1]
