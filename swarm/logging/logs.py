"""What a process logs, and where to. The console says what a person has to know now, the log the rest.

`begin` collects messages, for the folder of a volunteer's log is known only after the first steps; `write_to` writes
them, and all that follow, to a file (`file.py`), less what is known to be harmless (`noise.py`).
"""

import contextlib
import logging
import sys
import threading
from enum import Enum
from logging.handlers import MemoryHandler
from pathlib import Path

from swarm.logging.file import LogFile, redacted
from swarm.logging.noise import NotAgain, Repeats, known_noise

OURS = ("app", "averaging", "coordinator", "sahaj", "swarm", "tokenizer", "trainer", "hivemind")
FOLDER = "logs"  # beside what a peer keeps
WAITING = 1000  # messages until the file is known

_said = logging.getLogger("sahaj")  # what the console says
_failures = logging.getLogger("sahaj.failures")


class Level(str, Enum):
    """How much is logged."""

    DEBUG = "debug"  # everything, known noise as well
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _State:
    """The one of this process."""

    level = Level.INFO
    verbose = False
    begun = False
    waiting: MemoryHandler | None = None
    console: logging.Handler | None = None
    file: LogFile | None = None


def begin(level: Level = Level.INFO, *, verbose: bool = False) -> None:
    """Collect messages of this program and of hivemind from this level on, and warnings of other libraries.

    The console has the warnings of the coordinator, in a line each; if `verbose`, everything from INFO on.
    """
    end()
    _State.level, _State.verbose, _State.begun = level, verbose, True
    logging.raiseExceptions = False  # what cannot be logged is no reason for a traceback
    for name in OURS:
        logging.getLogger(name).setLevel(level.name)
    # other libraries stay at WARNING, whatever the level: below it some of them log headers and signed addresses
    _State.waiting = waiting = MemoryHandler(WAITING, flushLevel=logging.CRITICAL + 1, flushOnClose=False)
    waiting.addFilter(lambda _: len(waiting.buffer) < WAITING)
    _State.console = logging.StreamHandler()
    _State.console.addFilter(lambda record: record.name != _said.name)
    if verbose:
        _State.console.setLevel(logging.INFO)
        _State.console.setFormatter(_Redacted("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S"))
    else:
        _State.console.setLevel(logging.WARNING)
        _State.console.addFilter(logging.Filter("coordinator"))
        _State.console.addFilter(NotAgain())
        _State.console.setFormatter(_OneLine())
    for handler in (_State.waiting, _State.console):
        logging.getLogger().addHandler(handler)


def write_to(folder: Path, name: str) -> str | None:
    """Log to `folder/NAME.jsonl` from now on, and first what has been collected; returns in one line why it cannot be.

    A log that cannot be written stops nothing: it is tried again with each message.
    """
    if not _State.begun:  # a test or a benchmark, which has its own way to see messages
        return None
    file = LogFile(folder, name)
    if _State.level is not Level.DEBUG:
        file.addFilter(lambda record: known_noise(record) is None)
        file.addFilter(Repeats(but_of=_said.name))
    waiting, _State.waiting, older, _State.file = _State.waiting, None, _State.file, file
    root = logging.getLogger()
    root.addHandler(file)
    for handler in (waiting, older):
        if handler is not None:
            root.removeHandler(handler)
    if waiting is not None:
        waiting.setTarget(file)
        waiting.flush()
    logging.getLogger(__name__).info("the log begins, at level %s", _State.level.value)
    return f"The log {file.path} cannot be written ({file.problem}); everything else goes on." if file.lost else None


def adopt_hivemind() -> None:
    """Have hivemind's messages, too; call it before hivemind forks.

    It has a handler of its own that writes to the console, and lets nobody else hear.
    """
    if _State.begun:
        from hivemind.utils.logging import use_hivemind_log_handler

        use_hivemind_log_handler("nowhere")
        logging.getLogger("hivemind").setLevel(_State.level.name)


def end() -> None:
    """Log nowhere any more. What was collected and not written is forgotten."""
    for handler in (_State.waiting, _State.console, _State.file):
        if handler is not None:
            logging.getLogger().removeHandler(handler)
            handler.close()
    for name in OURS:
        logging.getLogger(name).setLevel(logging.NOTSET)
    _State.waiting = _State.console = _State.file = None
    _State.begun = False


def said(line: str) -> None:
    """Log what the console has said."""
    if _State.begun:
        _said.log(logging.WARNING if line.startswith(("problem: ", "attention: ")) else logging.INFO, "%s", line)


def keep_story(error: BaseException, what: str) -> None:
    """Log an error with its traceback, where the console has a line of its own about it."""
    _failures.error("%s", what, exc_info=error)


def unforeseen(error: BaseException, what: str, otherwise: Path) -> str:
    """Log an error with its traceback; returns the one line for the console.

    Args:
        what: has happened, as the beginning of that line.
        otherwise: folder for the log where there is none yet.
    """
    if _State.file is None:
        write_to(otherwise, "sahaj")
    _failures.critical("%s", what, exc_info=error)
    file = _State.file
    reason = " ".join(redacted(str(error)).split())[:200]
    told = f"{what} ({type(error).__name__}{': ' if reason else ''}{reason})"
    if file is None or file.lost:  # it must not be lost altogether
        if not _State.verbose:
            with contextlib.suppress(OSError):
                sys.excepthook(type(error), error, error.__traceback__)
        return told
    return f"{told}; the whole story is in {file.path}"


def catch_what_threads_drop(otherwise: Path) -> None:
    """From now on a thread that fails is told in one line, and what fails while Python cleans up in the log alone."""

    def thread_failed(failed: threading.ExceptHookArgs) -> None:
        if failed.exc_value is not None and failed.exc_type is not SystemExit:
            name = failed.thread.name if failed.thread else "?"
            line = unforeseen(failed.exc_value, f"a thread of the program has failed: {name}", otherwise)
            with contextlib.suppress(OSError):
                sys.stderr.write(f"sahaj: {line}\n")

    def clean_up_failed(failed: "sys.UnraisableHookArgs") -> None:
        if failed.exc_value is not None:
            _failures.warning("ignored while cleaning up: %r", failed.object, exc_info=failed.exc_value)

    threading.excepthook = thread_failed
    sys.unraisablehook = clean_up_failed


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(redacted(record.getMessage()).split())


class _Redacted(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))
