"""How every command starts: what is logged and printed, and what Ctrl-C does until there is something to finish."""

import contextlib
import gc
import os
import time
from collections.abc import Iterator

import typer

from swarm.logging import logs

PROCESS_STARTED = time.time()  # unix time, seconds
INTERRUPTED = 130  # exit status of a command that was ended by Ctrl-C


def set_verbosity(*, verbose: bool, log_level: logs.Level = logs.Level.INFO) -> None:
    """Decide how much the program and its libraries print and log; call it before those are imported."""
    logs.start(log_level, verbose=verbose)
    # hivemind writes to the console until our log takes its messages; libp2p's daemon would take over this level
    os.environ.setdefault("HIVEMIND_LOGLEVEL", "INFO" if verbose else "CRITICAL")
    os.environ.setdefault("GOLOG_LOG_LEVEL", "error")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "info" if verbose else "error")
    os.environ.setdefault("HF_HUB_VERBOSITY", "info" if verbose else "error")  # it tells of each retry
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    if not verbose:
        import warnings

        warnings.filterwarnings("ignore")  # deprecations inside libraries: nothing that a volunteer can change


def start_peer(*, verbose: bool, log_level: logs.Level) -> None:
    """Start a command that becomes a peer; until it has work to finish, Ctrl-C ends it at once."""
    from swarm.leaving import end_at_once_on_signal

    set_verbosity(verbose=verbose, log_level=log_level)
    end_at_once_on_signal(say_stopped)


@contextlib.contextmanager
def loading_libraries() -> Iterator[None]:
    """Import in this block: its modules stay as long as the process, and are not searched for garbage.

    The search takes a fifth of the time that torch and Transformers take to load, and each later one would take longer
    for them. It also writes to all that it looks at, so that forked processes would not share that memory any more.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def say_stopped() -> None:
    """Print the last line of a program that was stopped early."""
    logs.console_line("stopped")
    from swarm.language import _

    typer.echo(_("sahaj: stopped"), err=True)
