"""The file that a process logs to: a JSON object a line, bounded in size, and no reason to stop for anybody.

A peer is two processes: hivemind forks its DHT node. Each of them has a file of its own. In a
common one whoever rotates it would move it away from under the others. With a queue to the main process the last words
of a process that is killed would be lost on the way, and a main process that hangs would silence all others.
"""

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
from logging.handlers import RotatingFileHandler
from pathlib import Path

LARGEST = 4 * 2**20  # bytes of a file; a trainer logs some 50 kB an hour
KEPT = 3  # older files beside it; with those of its two processes a peer takes 32 MiB at most
LONGEST = 8_000  # characters of a message or a traceback; its end says most
# hivemind has its own name for one of them
LEVELS = {10: "DEBUG", 20: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL"}

# Whoever writes a message takes care that no secret is in it. This is for messages of others, which may quote
# what they were given: Hub tokens, headers, addresses with a password or a signature in them.
SECRETS = (
    (re.compile(r"\bhf_\w{6,}"), "hf_..."),
    (re.compile(r"\b(Bearer\s+)[^\s'\",;]+", re.IGNORECASE), r"\1..."),
    (re.compile(r"(://[^\s/:@]*:)[^\s/@]+@"), r"\1...@"),
    (re.compile(r"([?&][\w-]*(?:signature|token|key|credential)[\w-]*=)[^\s&'\"]+", re.IGNORECASE), r"\1..."),
)


class LogFile(RotatingFileHandler):
    """Writes `folder/NAME.jsonl`, and in a process forked from this one `folder/NAME-PROCESS.jsonl`.

    What cannot be written (a full disk, no permission) is counted, and the next line that can be written is told how
    many are missing. A line is in the file whole or not at all.
    """

    def __init__(self, folder: Path, name: str):
        self._stem, self._owner = name, os.getpid()
        self.lost = 0  # messages since the last one that could be written
        self.problem = ""  # why
        super().__init__(folder / f"{name}.jsonl", maxBytes=LARGEST, backupCount=KEPT, delay=True)

    @property
    def path(self) -> Path:
        """The newest file."""
        return Path(self.baseFilename)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record; never raises."""
        if self._owner != os.getpid():
            self._begin_anew()
        if self.lost:
            missing, self.lost = self.lost, 0
            super().emit(_gap(missing, self.problem))
            if self.lost:
                self.lost = missing
        super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        """See `json_line`."""
        return json_line(record, self.path.stem)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (upstream's name)
        """Count it; the file is opened again for the next one, its folder may be another by then."""
        error = sys.exc_info()[1]
        self.lost += 1
        self.problem = (isinstance(error, OSError) and error.strerror) or type(error).__name__
        with contextlib.suppress(OSError):
            self._drop_stream()

    def _begin_anew(self) -> None:
        """In a process that has just been forked."""
        self._owner, self.lost = os.getpid(), 0
        self._drop_stream()
        self.baseFilename = str(self.path.with_name(f"{self._stem}-{process_name()}.jsonl"))

    def _drop_stream(self) -> None:
        stream, self.stream = self.stream, None  # upstream, too, has none while the file is closed
        if stream is not None:
            stream.buffer.close()  # nothing waits to be written; after a fork it would be written twice

    def _open(self) -> io.TextIOWrapper:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # names and addresses of others are for whoever runs this peer
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return io.TextIOWrapper(_WholeLines(descriptor, "a"), "utf-8", "backslashreplace", "\n", write_through=True)


class _WholeLines(io.FileIO):
    """Takes back what did not fit: half a line would spoil the next one, too."""

    def write(self, line: bytes) -> int:  # type: ignore[override]
        before = self.seek(0, os.SEEK_END)
        if super().write(line) < len(line):
            self.truncate(before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return len(line)


def json_line(record: logging.LogRecord, process: str) -> str:
    """The record as an object of time (ISO 8601, UTC), level, logger, process, pid, message, and exception if any."""
    # messages of libp2p's daemon come with the time and the place at which it wrote them
    when = datetime.datetime.fromtimestamp(getattr(record, "origin_created", record.created), datetime.timezone.utc)
    exception = record.exc_info[1] if record.exc_info else None
    message = record.getMessage() or (repr(exception) if exception else "")
    caller = getattr(record, "caller", None)
    entry = {
        "time": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": LEVELS.get(record.levelno, record.levelname),
        "logger": f"libp2p {caller}" if caller else record.name,
        "process": process,
        "pid": record.process,
        "message": cut(redacted(message)),
    }
    if record.exc_info and exception:
        entry["exception"] = cut(redacted(logging.Formatter().formatException(record.exc_info)))
    return json.dumps(entry, ensure_ascii=False)


def redacted(text: str) -> str:
    """The text without what looks like a secret."""
    for pattern, instead in SECRETS:
        text = pattern.sub(instead, text)
    return text


def cut(text: str, longest: int = LONGEST) -> str:
    """Beginning and end of a text that is too long."""
    if len(text) <= longest:
        return text
    return f"{text[: longest // 4]} [...] {text[-(longest - longest // 4) :]}"


def process_name() -> str:
    """What this forked process is, from its class: `node` for a `Node`."""
    kind = multiprocessing.current_process().name.partition("-")[0]
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind).lower()


def _gap(missing: int, problem: str) -> logging.LogRecord:
    message = f"{missing} messages are missing here: the log could not be written ({problem})"
    return logging.LogRecord(__name__, logging.WARNING, __file__, 0, message, None, None)
