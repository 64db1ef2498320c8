import signal
import socket
import threading
from collections.abc import Callable

import httpx
import pytest
from fastapi import FastAPI

from coordinator.http import request_limits
from coordinator.http.server import Server
from swarm.errors import SwarmError
from tests.coordinator.http.conftest import Service
from tests.support.waiting import PATIENCE


def test_it_serves_until_it_is_stopped_and_leaves_signals_alone() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    server = Server(FastAPI(), "0.0.0.0", 0)
    assert server.url == f"http://127.0.0.1:{server.port}"
    assert httpx.get(server.url + "/openapi.json", trust_env=False, timeout=PATIENCE).status_code == 200
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    server.stop()
    server.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url, trust_env=False)
    assert not [thread for thread in threading.enumerate() if thread.name == "http"]
    again = Server(FastAPI(), "127.0.0.1", server.port)  # the port is free at once
    again.stop()


def test_a_port_in_use_and_a_foreign_host_are_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SwarmError, match=rf"127\.0\.0\.1:{port}.*access\.port") as caught:
            Server(FastAPI(), "127.0.0.1", port)
    assert "\n" not in str(caught.value)
    for host in ("192.0.2.1", "no such host", "a" * 100):
        with pytest.raises(SwarmError, match=r"access\.host"):
            Server(FastAPI(), host, 0)


def test_a_request_that_does_not_arrive_is_given_up(
    serve: Callable[..., Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = serve(open=True)
    with (
        monkeypatch.context() as for_now,
        socket.create_connection(("127.0.0.1", service.server.port), PATIENCE) as slow,
    ):
        for_now.setattr(request_limits, "BODY_PATIENCE", 0.3)
        slow.sendall(b"POST /api/join HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
        assert slow.recv(100).startswith(b"HTTP/1.1 408")
    with socket.create_connection(("127.0.0.1", service.server.port)) as leaver:
        leaver.sendall(b"POST /api/join HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
    with socket.create_connection(("127.0.0.1", service.server.port), PATIENCE) as garbler:
        garbler.sendall(b"\x00\xff nonsense\r\n\r\n")
        assert garbler.recv(100).startswith(b"HTTP/1.1 400")
    assert service.join(name="asha").status_code == 200
