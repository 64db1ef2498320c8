import json
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swarm.logging import logs


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Logging has begun, and ends with the test."""
    hooks = ((threading, "excepthook"), (sys, "unraisablehook"), (sys, "excepthook"))
    for owner, hook in ((logging, "raiseExceptions"), *hooks):
        monkeypatch.setattr(owner, hook, getattr(owner, hook))
    logs.start()
    yield
    logs.stop()
    if hivemind := sys.modules.get("hivemind.utils.logging"):
        hivemind.use_hivemind_log_handler("in_hivemind")


def lines(path: Path) -> list[dict[str, Any]]:
    """A log; fails if anything in it is not a whole line."""
    content = path.read_text(encoding="utf-8")
    assert content.endswith("\n")
    return [json.loads(line) for line in content.splitlines()]


def messages(path: Path) -> list[str]:
    return [line["message"] for line in lines(path)]
