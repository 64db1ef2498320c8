"""Sets up what a process logs: the console shows what a person must know now, the log file has the rest.

`start` keeps messages in memory, because a volunteer's folder is known only after the first steps; `write_to` writes
them, and all later ones, to a file.
"""

import contextlib
import logging
import sys
import threading
from enum import Enum
from logging.handlers import MemoryHandler
from pathlib import Path
from types import TracebackType

from swarm.language import _
from swarm.logging.file import LimitRepeats, LogFile, is_harmless, redacted
from swarm.rate_limit import RateLimit

# Other libraries stay at WARNING whatever the level: below it some of them log headers and signed addresses.
OURS = (
    "app",
    "averaging",
    "coordinator",
    "corpus",
    "downstream",
    "experts",
    "sahaj",
    "swarm",
    "tokenizer",
    "trainer",
    "hivemind",
)
FOLDER = "logs"  # beside what a peer keeps
BUFFERED = 1000  # messages until the file is known
MOST_REPEATS = 120  # messages a minute from one line of the program

_console_lines = logging.getLogger("sahaj")
_failures = logging.getLogger("sahaj.failures")


class Level(str, Enum):
    """How much is logged."""

    DEBUG = "debug"  # everything, known noise as well
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _State:
    """Of this process."""

    level: Level | None = None  # None: not started
    verbose = False
    buffer: MemoryHandler | None = None
    console: logging.Handler | None = None
    file: LogFile | None = None


def start(level: Level = Level.INFO, *, verbose: bool = False) -> None:
    """Collect messages of this program and of hivemind from this level on, and warnings of other libraries.

    The console shows each warning of the coordinator in one line; if `verbose`, everything from INFO on.
    """
    stop()
    _State.level, _State.verbose = level, verbose
    logging.raiseExceptions = False  # a message that cannot be written is no reason for a traceback
    for name in OURS:
        logging.getLogger(name).setLevel(level.name)
    _State.buffer = buffer = MemoryHandler(BUFFERED, flushLevel=logging.CRITICAL + 1, flushOnClose=False)
    buffer.addFilter(lambda _: len(buffer.buffer) < BUFFERED)
    _State.console = console = logging.StreamHandler()
    console.addFilter(lambda record: record.name != _console_lines.name)
    console.setLevel(logging.INFO if verbose else logging.WARNING)
    console.setFormatter(_ConsoleFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S"))
    if not verbose:
        console.addFilter(logging.Filter("coordinator"))
        once = RateLimit(1, 3600.0, keys=1000)  # not LimitRepeats: the file gets the same records
        console.addFilter(lambda record: once.attempt(record.getMessage()) is None)
        console.setFormatter(_OneLine())
    for handler in (buffer, console):
        logging.getLogger().addHandler(handler)


def write_to(folder: Path, name: str) -> str | None:
    """Log to `folder/NAME.jsonl` from now on, beginning with what was collected.

    Returns None, or one line that says why the file cannot be written; it is tried again with each message.
    """
    if _State.level is None:  # a test or a benchmark, which has its own way to see messages
        return None
    file = LogFile(folder, name)
    if _State.level is not Level.DEBUG:
        repeats = LimitRepeats(MOST_REPEATS, 60.0, lambda record: f"{record.pathname}:{record.lineno}")
        file.addFilter(lambda record: not is_harmless(record))
        file.addFilter(lambda record: record.name == _console_lines.name or repeats.filter(record))
    root, buffer = logging.getLogger(), _State.buffer
    root.addHandler(file)
    for older in (buffer, _State.file):
        if older is not None:
            root.removeHandler(older)
    _State.buffer, _State.file = None, file
    if buffer is not None:
        buffer.setTarget(file)
        buffer.flush()
    logging.getLogger(__name__).info("the log begins, at level %s", _State.level.value)
    if not file.problem:
        return None
    told = _("The log {path} cannot be written ({reason}); everything else goes on.")
    return told.format(path=file.path, reason=file.problem)


def capture_hivemind() -> None:
    """Take hivemind's messages, which otherwise go to the console alone; call it before hivemind forks."""
    if _State.level is not None:
        from hivemind.utils.logging import use_hivemind_log_handler

        use_hivemind_log_handler("nowhere")
        logging.getLogger("hivemind").setLevel(_State.level.name)


def stop() -> None:
    """Log nowhere any more; what was collected and not written is dropped."""
    for handler in (_State.buffer, _State.console, _State.file):
        if handler is not None:
            logging.getLogger().removeHandler(handler)
            handler.close()
    for name in OURS:
        logging.getLogger(name).setLevel(logging.NOTSET)
    _State.level = _State.buffer = _State.console = _State.file = None


def console_line(line: str) -> None:
    """Log what the console has shown."""
    if _State.level is not None:
        level = (
            logging.WARNING
            if line.startswith(("problem: ", "attention: ", _("problem: "), _("attention: ")))
            else logging.INFO
        )
        _console_lines.log(level, "%s", line)


def log_failure(error: BaseException, what: str) -> None:
    """Log an error with its traceback, where the console has a line of its own about it."""
    _failures.error("%s", what, exc_info=error)


def unexpected(error: BaseException, what: str, fallback: Path) -> str:
    """Log an unexpected error with its traceback; returns the one line for the console.

    Args:
        what: what has failed, as the beginning of that line.
        fallback: folder for the log where there is none yet.
    """
    if _State.file is None:
        write_to(fallback, "sahaj")
    _failures.critical("%s", what, exc_info=error)
    reason = " ".join(redacted(str(error)).split())[:200]
    line = f"{what} ({type(error).__name__}{': ' if reason else ''}{reason})"
    if _State.file is not None and not _State.file.problem:
        return f"{line}; the traceback is in {_State.file.path}"
    if not _State.verbose:  # the traceback is nowhere yet
        with contextlib.suppress(OSError):
            sys.__excepthook__(type(error), error, error.__traceback__)
    return line


def log_uncaught(fallback: Path) -> None:
    """From now on a thread that fails is one line on the console.

    A failing destructor is in the log alone, and so is an error after which a thread of a library goes on.
    """
    uncaught = sys.excepthook

    def thread_failed(failed: threading.ExceptHookArgs) -> None:
        if failed.exc_value is not None and failed.exc_type is not SystemExit:
            name = failed.thread.name if failed.thread else "?"
            line = unexpected(failed.exc_value, f"a thread of the program has failed: {name}", fallback)
            with contextlib.suppress(OSError):
                sys.stderr.write(f"sahaj: {line}\n")

    def destructor_failed(failed: "sys.UnraisableHookArgs") -> None:
        if failed.exc_value is not None:
            _failures.warning("ignored while cleaning up: %r", failed.object, exc_info=failed.exc_value)

    def survived(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        thread = threading.current_thread()
        if thread is threading.main_thread():
            uncaught(kind, error, traceback)
        else:  # that of multiprocessing which hands over connections, when a process is killed while it asks for one
            _failures.warning("a thread goes on after an error: %s", thread.name, exc_info=error)

    threading.excepthook, sys.unraisablehook, sys.excepthook = thread_failed, destructor_failed, survived


class _ConsoleFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(redacted(record.getMessage()).split())


def silence_hugging_face() -> None:
    """From now on Transformers and huggingface_hub show no progress bars, and no warnings: some quote signed URLs."""
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging as transformers

    transformers.disable_progress_bar()  # those of the Hub, too
    transformers.set_verbosity_error()
    hub.set_verbosity_error()
