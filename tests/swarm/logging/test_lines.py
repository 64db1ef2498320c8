import datetime
import json
import logging
import os
import sys
from typing import Any

import pytest

from swarm.logging.file import LONGEST, json_line


def record(message: str, *arguments: object, level: int = logging.INFO, **more: Any) -> logging.LogRecord:
    made = logging.LogRecord("swarm.example", level, __file__, 1, message, arguments, more.pop("exc_info", None))
    made.__dict__.update(more)
    return made


def parsed(made: logging.LogRecord) -> dict[str, Any]:
    line = json_line(made, "trainer")
    assert "\n" not in line
    return dict(json.loads(line))


def test_a_line_says_when_how_grave_who_and_what() -> None:
    logging.addLevelName(logging.WARNING, "WARN")  # as hivemind does
    line = parsed(record("নদী %d", 3, level=logging.WARNING, created=1700000000.5))
    assert line == {
        "time": "2023-11-14T22:13:20.500Z",
        "level": "WARNING",
        "logger": "swarm.example",
        "process": "trainer",
        "pid": os.getpid(),
        "message": "নদী 3",
    }
    logging.addLevelName(logging.WARNING, "WARNING")


def test_an_exception_is_in_its_own_field_and_speaks_for_a_message_without_words() -> None:
    try:
        raise TimeoutError
    except TimeoutError as error:
        line = parsed(record("%s", error, exc_info=sys.exc_info()))  # hivemind: logger.exception(error)
    assert line["message"] == "TimeoutError()"
    assert line["exception"].startswith("Traceback") and line["exception"].endswith("TimeoutError")


def test_words_of_libp2p_keep_their_time_and_place() -> None:
    said = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc).timestamp()
    line = parsed(record("dial failed", origin_created=said, caller="swarm/swarm.go:12"))
    assert (line["time"], line["logger"]) == ("2026-01-02T03:04:05.000Z", "libp2p swarm/swarm.go:12")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Hub said no to hf_AbCdEf0123456789", "AbCdEf"),
        ("{'authorization': 'Bearer 0a1b2c3d'}", "0a1b2c3d"),
        ("postgresql://keeper:hidden-word@db/ledger is locked", "hidden-word"),
        ("GET https://cdn.example/x?a=1&X-Amz-Signature=s3cr3t&b=2", "s3cr3t"),
    ],
)
def test_what_looks_like_a_secret_is_cut_out_of_messages_and_tracebacks(text: str, secret: str) -> None:
    try:
        raise ValueError(text)
    except ValueError:
        line = json_line(record("so: %s", text, exc_info=sys.exc_info()), "trainer")
    assert secret not in line
    assert text[:8] in line, "the rest is there"


def test_a_message_is_cut_in_its_middle_if_it_is_too_long() -> None:
    message = parsed(record("a" * 10 * LONGEST + "end"))["message"]
    assert len(message) < 1.1 * LONGEST and message.startswith("a") and message.endswith("end")
