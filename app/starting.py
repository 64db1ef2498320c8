"""How a command that becomes a peer starts: since when, and what Ctrl-C does until there is something to finish."""

import time

import typer

from swarm.logging import logs

PROCESS_STARTED = time.time()  # unix time, seconds


def stop_at_once() -> None:
    """Ctrl-C while a peer starts: there is nothing to finish yet."""
    from swarm.leaving import end_at_once_on_signal

    end_at_once_on_signal(say_stopped)


def say_stopped() -> None:
    """The last line of a program that was stopped early."""
    logs.console_line("stopped")
    typer.echo("sahaj: stopped", err=True)
