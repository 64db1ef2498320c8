"""The log file of a process: one JSON object a line, rotated by size, without secrets, known noise and repetitions."""

import contextlib
import datetime
import errno
import io
import json
import logging
import multiprocessing
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path

from swarm.rate_limit import RateLimit

LARGEST = 4 * 2**20  # bytes of a file; a trainer logs some 50 kB an hour
KEPT = 3  # older files beside it; the two processes of a peer take 32 MiB at most
LONGEST = 8_000  # characters of a message or a traceback
LEVELS = {10: "DEBUG", 20: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL"}  # hivemind renames one of them

# Our own messages hold no secrets. Those of libraries may quote Hub tokens, headers, passwords and signatures in URLs.
SECRETS = (
    (re.compile(r"\bhf_\w{6,}"), "hf_..."),
    (re.compile(r"\b(Bearer\s+)[^\s'\",;]+", re.IGNORECASE), r"\1..."),
    (re.compile(r"(://[^\s/:@]*:)[^\s/@]+@"), r"\1...@"),
    (re.compile(r"([?&][\w-]*(?:signature|token|key|credential)[\w-]*=)[^\s&'\"]+", re.IGNORECASE), r"\1..."),
)

# Logger and pattern; the message is searched with the exception behind it. Each was seen in swarms in which nothing was
# wrong, or in which a peer had only left.
HARMLESS = (
    # the other side closed the stream: it has the whole answer, or it has left
    (
        "hivemind.p2p.p2p_daemon",
        re.compile(r"Exception while receiving requests.*(ConnectionResetError|IncompleteReadError|BrokenPipeError)"),
    ),
    # the peer is leaving: its DHT node outlives its main process for a moment
    (
        "hivemind.dht.dht",
        re.compile(r"ConnectionResetError|BrokenPipeError|EOFError|FileNotFoundError|DHT did not shut down within"),
    ),
    # a call to a peer that has left: hivemind gave up the call, and its caller has seen the failure
    (
        "asyncio",
        re.compile(
            r"exception was never retrieved.*(P2PHandlerError|P2PDaemonError|ControlFailure|DispatchFailure"
            r"|ConnectionResetError|BrokenPipeError|IncompleteReadError|CancelledError)",
            re.IGNORECASE | re.DOTALL,
        ),
    ),
    # the process closed its event loop while a call was under way
    ("asyncio", re.compile(r"^Task was destroyed but it is pending")),
)


class LogFile(RotatingFileHandler):
    """Writes `folder/NAME.jsonl`, and in a process forked from this one `folder/NAME-PROCESS.jsonl`.

    Each process has its own file, because a process that rotates a shared one moves it away from under the others. A
    message that cannot be written (a full disk, no permission) is lost; `problem` says why, and is empty otherwise. The
    next message that can be written says how many are missing.
    """

    def __init__(self, folder: Path, name: str):
        self._stem, self._pid, self.problem, self._lost = name, os.getpid(), "", 0
        super().__init__(folder / f"{name}.jsonl", maxBytes=LARGEST, backupCount=KEPT, delay=True)

    @property
    def path(self) -> Path:
        """The newest file."""
        return Path(self.baseFilename)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record; never raises."""
        if self._pid != os.getpid():  # forked since the last record
            self._pid, self._lost = os.getpid(), 0
            self.stream = None  # upstream, too, has none while the file is closed
            self.baseFilename = str(self.path.with_name(f"{self._stem}-{process_name()}.jsonl"))
        self.problem = ""
        super().emit(record)
        self._lost = self._lost + 1 if self.problem else 0

    def format(self, record: logging.LogRecord) -> str:
        """See `json_line`."""
        missing = f"[{self._lost} messages before this one are missing] " if self._lost else ""
        return json_line(record, self.path.stem, missing)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (upstream's name)
        """Keep the reason; the file is opened again for the next message."""
        error = sys.exc_info()[1]
        stream, self.stream = self.stream, None
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
        self.problem = (isinstance(error, OSError) and error.strerror) or type(error).__name__

    def _open(self) -> io.TextIOWrapper:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # unbuffered: a forked process must not write what its parent had begun
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return io.TextIOWrapper(_WholeLines(descriptor, "a"), "utf-8", "backslashreplace", "\n", write_through=True)


class _WholeLines(io.FileIO):
    """Removes a line that was written in part: JSON readers stop at half a line."""

    def write(self, line: bytes) -> int:  # type: ignore[override]
        before = self.seek(0, os.SEEK_END)
        if super().write(line) < len(line):
            self.truncate(before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return len(line)


def json_line(record: logging.LogRecord, process: str, prefix: str = "") -> str:
    """The record as an object of time (ISO 8601, UTC), level, logger, process, pid, message, and exception if any.

    Args:
        prefix: of the message.
    """
    # hivemind passes on messages of libp2p's daemon with their own time and place
    when = datetime.datetime.fromtimestamp(getattr(record, "origin_created", record.created), datetime.timezone.utc)
    caller = getattr(record, "caller", None)
    exception = record.exc_info[1] if record.exc_info else None
    entry = {
        "time": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": LEVELS.get(record.levelno, record.levelname),
        "logger": f"libp2p {caller}" if caller else record.name,
        "process": process,
        "pid": record.process,
        "message": prefix + _shortened(redacted(record.getMessage() or (repr(exception) if exception else ""))),
    }
    if record.exc_info and exception:
        entry["exception"] = _shortened(redacted(logging.Formatter().formatException(record.exc_info)))
    return json.dumps(entry, ensure_ascii=False)


def redacted(text: str) -> str:
    """The text without what looks like a secret."""
    for pattern, replacement in SECRETS:
        text = pattern.sub(replacement, text)
    return text


def process_name() -> str:
    """What this forked process is, from its class: `node` for a `Node`."""
    kind = multiprocessing.current_process().name.partition("-")[0]
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind).lower()


def _shortened(text: str) -> str:
    """The beginning and the end of a long text; the end of a traceback says most."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 4]} [...] {text[-3 * LONGEST // 4 :]}"


def is_harmless(record: logging.LogRecord) -> bool:
    """Whether a message is known noise."""
    text = record.getMessage()
    if record.exc_info and record.exc_info[1]:
        text = f"{text} {record.exc_info[1]!r}"
    return any(record.name == logger and pattern.search(text) for logger, pattern in HARMLESS)


class LimitRepeats(logging.Filter):
    """Lets `most` records with the same `key` through in `seconds`; the next one says how many were left out.

    Strangers can make a peer refuse them as often as they like: that must not push everything else out of the log.
    """

    def __init__(
        self,
        most: int,
        seconds: float,
        key: Callable[[logging.LogRecord], str],
        clock: Callable[[], float] = time.monotonic,
    ):
        """`key` has few values: what is left out is counted for each. The record is changed, for later handlers too."""
        super().__init__()
        self._limit, self._key, self._left_out = RateLimit(most, seconds, keys=1000, clock=clock), key, Counter[str]()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is within the limit."""
        key = self._key(record)
        if self._limit.attempt(key) is not None:
            self._left_out[key] += 1
            return False
        if left_out := self._left_out.pop(key, 0):
            record.msg, record.args = f"{record.getMessage()} [{left_out} more like this were left out]", None
        return True
