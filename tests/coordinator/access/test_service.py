"""What the organizer sees of the HTTP service of a run."""

import contextlib
import threading
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from fastapi import FastAPI

from coordinator.access import service
from coordinator.access.decisions import open_access_control
from coordinator.http.server import Server
from coordinator.run_context import RunContext
from swarm.identity import load_identity
from swarm.run_file import parse_run
from tests.support.waiting import PATIENCE


def test_a_service_that_ends_by_itself_ends_the_coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = parse_run(
        {"name": "a-run", "data": {"train": [{"path": "river.txt"}]}, "access": {"open": True, "port": 0}},
        tmp_path / "run.yaml",
    )
    identity, said, failed = load_identity(tmp_path / "identity.key"), list[str](), threading.Event()
    servers: list[Server] = []

    def start(*where: Any, **options: Any) -> Server:
        servers.append(Server(*where, **options))
        return servers[-1]

    monkeypatch.setattr(service, "Server", start)
    monkeypatch.setattr(service, "make_app", lambda context: FastAPI())
    monkeypatch.setattr(service, "open_renewals", lambda context, dht: contextlib.nullcontext())
    with service.serve(
        RunContext(run, Mock(), tmp_path, Mock(), said.append),
        Mock(),
        open_access_control(run.name, tmp_path, identity, 3600.0),
        Mock(),
        identity,
        status=Mock(),
        order_rollback=Mock(),
        hosts=list,
        sessions=list,
        fail=failed.set,
    ):
        (server,) = servers
        monkeypatch.setattr(server._server, "on_tick", AsyncMock(side_effect=RuntimeError("hidden-word")))
        assert failed.wait(PATIENCE)
    assert said == [
        f"problem: the HTTP service at port {server.port} has ended (RuntimeError); the program is stopping, so start "
        "it again"
    ]
