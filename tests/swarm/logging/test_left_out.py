import asyncio
import logging
from functools import partial
from pathlib import Path

import pytest
from hivemind.p2p.p2p_daemon_bindings.utils import P2PHandlerError

from swarm.logging import file, logs
from swarm.logging.file import HARMLESS, LimitRepeats, is_harmless
from swarm.rate_limit import RateLimit
from tests.swarm.logging.conftest import messages


def record(
    logger: str, message: str, error: BaseException | None = None, level: int = logging.ERROR
) -> logging.LogRecord:
    info = (type(error), error, None) if error else None
    return logging.LogRecord(logger, level, __file__, 1, message, None, info)


NOISE = {
    "the caller has hung up": [
        record("hivemind.p2p.p2p_daemon", "Exception while receiving requests:", ConnectionResetError(104, "reset")),
        record(
            "hivemind.p2p.p2p_daemon",
            "Exception while receiving requests:",
            asyncio.IncompleteReadError(b"", expected=1),
        ),
    ],
    "the node outlives its peer": [
        record("hivemind.dht.dht", "[Errno 104] Connection reset by peer", ConnectionResetError(104, "reset")),
        record("hivemind.dht.dht", "[Errno 2] No such file or directory", FileNotFoundError(2, "no such file")),
        record("hivemind.dht.dht", "DHT did not shut down within the grace period; terminating it the hard way"),
    ],
    "a call to a peer that has left": [
        record("asyncio", "Task exception was never retrieved\nfuture: <Task ...>", P2PHandlerError("failed to dial")),
        record("asyncio", "Future exception was never retrieved", ConnectionResetError("Connection lost")),
    ],
    "an unfinished task at the end": [record("asyncio", "Task was destroyed but it is pending!\ntask: <Task ...>")],
}
WORTH_READING = [
    record("averaging.shell.shell", "division by zero", ZeroDivisionError("division by zero")),
    record("hivemind.p2p.p2p_daemon", "Handler failed with the exception:", ZeroDivisionError("division by zero")),
    record("hivemind.p2p.p2p_daemon", "Exception while receiving requests:", ZeroDivisionError("division by zero")),
    record("hivemind.dht.dht", "the loop has failed", ZeroDivisionError("division by zero")),
    record("asyncio", "Task exception was never retrieved", ZeroDivisionError("division by zero")),
]


def test_every_pattern_has_its_examples() -> None:
    assert len(HARMLESS) == len(NOISE)


@pytest.mark.parametrize("name", NOISE)
def test_noise_is_found_by_its_pattern_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(is_harmless(one) for one in NOISE[name])
    others = [one for one in HARMLESS if one is not HARMLESS[list(NOISE).index(name)]]
    monkeypatch.setattr(file, "HARMLESS", others)
    assert not any(is_harmless(one) for one in NOISE[name])


@pytest.mark.parametrize("one", WORTH_READING, ids=lambda one: f"{one.name}: {one.msg}")
def test_what_is_no_noise_is_read(one: logging.LogRecord) -> None:
    assert not is_harmless(one)


@pytest.mark.parametrize("level", logs.Level)
@pytest.mark.usefixtures("begun")
def test_noise_is_in_the_log_at_the_level_of_debugging_alone(tmp_path: Path, level: logs.Level) -> None:
    logs.start(level)
    logs.write_to(tmp_path, "trainer")
    logs.capture_hivemind()
    noise = [one for examples in NOISE.values() for one in examples]
    for one in noise:
        logging.getLogger(one.name).handle(one)
    logging.getLogger("asyncio").error("strange")
    told = [message for message in messages(tmp_path / "trainer.jsonl") if not message.startswith("the log begins")]
    assert len(told) == (len(noise) if level is logs.Level.DEBUG else 0) + 1


def test_repetitions_are_counted() -> None:
    now = [100.0]
    limit = LimitRepeats(3, 60.0, logging.LogRecord.getMessage, clock=lambda: now[0])
    passed = [limit.filter(record("averaging.transport", "refused")) for _ in range(10)]
    assert passed == [True] * 3 + [False] * 7
    assert limit.filter(record("averaging.transport", "another")), "each text has a limit of its own"
    now[0] += 60.0
    later = record("averaging.transport", "refused")
    assert limit.filter(later)
    assert later.getMessage() == "refused [7 more like this were left out]"


@pytest.mark.usefixtures("begun")
def test_the_console_says_the_same_once_an_hour_and_the_file_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(logs, "RateLimit", partial(RateLimit, clock=lambda: now[0]))
    logs.start()
    logs.write_to(tmp_path, "coordinator")
    for later in (0.0, 60.0, 3600.0):
        now[0] += later
        logging.getLogger("coordinator.checkpoints").warning("skipped: checkpoint-4 is broken")
    assert messages(tmp_path / "coordinator.jsonl")[1:] == ["skipped: checkpoint-4 is broken"] * 3
    assert capfd.readouterr().err.count("skipped: checkpoint-4 is broken") == 2


@pytest.mark.usefixtures("begun")
def test_one_line_of_the_program_cannot_fill_the_log_and_what_the_console_shows_is_not_limited(tmp_path: Path) -> None:
    logs.write_to(tmp_path, "trainer")
    for number in range(2 * logs.MOST_REPEATS):
        logging.getLogger("averaging.transport").warning("refused %d", number)
        logs.console_line(f"global step {number}")
    told = messages(tmp_path / "trainer.jsonl")
    assert sum(message.startswith("refused") for message in told) == logs.MOST_REPEATS
    assert sum(message.startswith("global step") for message in told) == 2 * logs.MOST_REPEATS
