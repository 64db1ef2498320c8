import asyncio
import logging
from pathlib import Path

import pytest
from hivemind.p2p.p2p_daemon_bindings.utils import P2PHandlerError

from swarm.logging import logs, noise
from swarm.logging.noise import RULES, NotAgain, Repeats, known_noise
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


def test_every_rule_has_its_examples_and_says_why() -> None:
    assert [rule.name for rule in RULES] == list(NOISE)
    assert all(len(rule.harmless) > 40 for rule in RULES)


@pytest.mark.parametrize("name", NOISE)
def test_noise_is_known_by_its_rule(name: str) -> None:
    for one in NOISE[name]:
        rule = known_noise(one)
        assert rule is not None and rule.name == name


@pytest.mark.parametrize("one", WORTH_READING, ids=lambda one: f"{one.name}: {one.msg}")
def test_what_is_no_noise_is_read(one: logging.LogRecord) -> None:
    assert known_noise(one) is None


@pytest.mark.parametrize("level", logs.Level)
@pytest.mark.usefixtures("begun")
def test_noise_is_in_the_log_at_the_level_of_debugging_alone(tmp_path: Path, level: logs.Level) -> None:
    logs.begin(level)
    logs.write_to(tmp_path, "trainer")
    logs.adopt_hivemind()
    noise = [one for examples in NOISE.values() for one in examples]
    for one in noise:
        logging.getLogger(one.name).handle(one)
    logging.getLogger("asyncio").error("strange")
    told = [message for message in messages(tmp_path / "trainer.jsonl") if not message.startswith("the log begins")]
    assert len(told) == (len(noise) if level is logs.Level.DEBUG else 0) + 1


def test_what_is_said_over_and_over_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    repeats = Repeats(but_of="sahaj")
    now = [100.0]
    monkeypatch.setattr(noise.time, "monotonic", lambda: now[0])
    passed = [repeats.filter(record("averaging.transport", "refused")) for _ in range(noise.MOST + 7)]
    assert passed == [True] * noise.MOST + [False] * 7
    assert all(repeats.filter(record("sahaj", "global step")) for _ in range(2 * noise.MOST))
    now[0] += noise.WINDOW
    later = record("averaging.transport", "refused")
    assert repeats.filter(later)
    assert later.getMessage() == "refused [7 more like this were left out]"


def test_a_console_is_told_the_same_once_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    once, now = NotAgain(), [100.0]
    monkeypatch.setattr(noise.time, "monotonic", lambda: now[0])
    broken = record("coordinator.checkpoints.checkpoint", "skipped: checkpoint-4 is broken")
    assert once.filter(broken)
    now[0] += 60.0
    assert not once.filter(broken)
    assert once.filter(record("coordinator.checkpoints.checkpoint", "skipped: checkpoint-8 is broken"))
    now[0] += noise.HOUR
    assert once.filter(broken)
