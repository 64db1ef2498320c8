"""The HTTP server and its connections: nobody is locked out, and nothing stays behind."""

import signal
import socket
import threading
from dataclasses import dataclass
from typing import Any, cast

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import Response

from coordinator.http import request_limits
from coordinator.http import server as http_server
from coordinator.http.server import MOST_CONNECTIONS, Server, most_connections, to_close
from swarm.errors import SwarmError
from tests.access.attackers.crowds.crowd import HEAD, Crowd, crowd_at
from tests.coordinator.http.conftest import Service
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE, wait_until

ATTACKER = "127.0.0.2"


def test_it_serves_until_it_is_stopped_and_leaves_signals_alone() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    others = threading.enumerate()  # servers of earlier tests take a moment to stop
    ended: list[str] = []
    server = Server(FastAPI(), "0.0.0.0", free_port(), ended=ended.append)
    assert server.url == f"http://127.0.0.1:{server.port}"
    assert httpx.get(server.url + "/openapi.json", trust_env=False, timeout=PATIENCE).status_code == 200
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    server.stop()
    server.stop()
    assert not ended
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url, trust_env=False)
    assert not [thread for thread in threading.enumerate() if thread.name == "http" and thread not in others]
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


def test_a_request_that_does_not_arrive_is_given_up(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
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


@dataclass(frozen=True)
class Held:
    address: str
    since: float
    waits: bool = True


def test_a_thousand_silent_sockets_of_one_address_shut_out_nobody(service: Service) -> None:
    with crowd_at(Crowd("127.0.0.1", service.server.port, ATTACKER)):
        for number in range(20):  # each by a connection of its own, which the others could keep out
            assert service.client.get("/healthz").status_code == 200
            assert service.join(name=f"v{number}").status_code == 200
        assert len(_held(service.server)) <= MOST_CONNECTIONS


def test_a_head_that_does_not_arrive_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_PATIENCE", 0.5)
    serving = Server(FastAPI(), "127.0.0.1", 0)
    try:
        whole = b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n"
        for begun in (b"", HEAD, whole + HEAD):  # the last one after an answer
            with socket.create_connection(("127.0.0.1", serving.port)) as held:
                held.settimeout(PATIENCE)
                held.sendall(begun)
                enough = threading.Event()
                trickling = threading.Thread(target=_trickle, args=(held, enough), daemon=True)
                if begun:
                    trickling.start()
                answer = _read_all(held)
                enough.set()
                assert answer.startswith(b"HTTP/1.1 200") == begun.startswith(whole)
                assert b"408" not in answer
    finally:
        serving.stop()


def test_an_answer_that_is_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "EXCHANGE_PATIENCE", 1.0)
    app = FastAPI()
    app.get("/large")(lambda: Response(bytes(1 << 26)))
    serving = Server(app, "127.0.0.1", 0)
    try:
        with socket.create_connection(("127.0.0.1", serving.port)) as lazy:
            lazy.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            wait_until(lambda: any(one.transport.get_write_buffer_size() for one in _held(serving)), "answer")
            (unread,) = _held(serving)
            unread.loop.call_soon_threadsafe(unread._check_deadline)  # else it looks when a head would have been due
            wait_until(lambda: not _held(serving), "end of the connection")
    finally:
        serving.stop()


def closed(connections: list[Held]) -> list[Any]:
    return to_close(cast(Any, connections))


def test_the_address_with_most_in_vain_makes_room_the_oldest_first() -> None:
    crowd = [Held("crowd", 10.0 + number) for number in range(8)]
    one = Held("volunteer", 0.0)
    assert closed([*crowd, one]) == crowd[:3]
    assert closed([*crowd, Held("crowd", 20.0)]) == crowd[:3], "a newcomer of the same address"
    assert closed([one]) == [one]


def test_requests_that_are_being_answered_are_not_closed() -> None:
    at_work = [Held("proxy", float(number), waits=False) for number in range(8)]
    newcomer = Held("proxy", 9.0)
    assert closed([*at_work, newcomer]) == [newcomer]
    assert closed([*at_work, newcomer, Held("other", 10.0)]) == [newcomer], "of addresses with as many, the older"


@pytest.mark.parametrize(("files", "most"), [(4096, MOST_CONNECTIONS), (256, 128)])
def test_there_are_files_for_the_connections(monkeypatch: pytest.MonkeyPatch, files: int, most: int) -> None:
    monkeypatch.setattr(http_server, "allow_open_files", lambda count: min(count, files))
    assert most_connections() == most


def _held(serving: Server) -> list[Any]:
    return list(serving._server.server_state.connections)


def _trickle(held: socket.socket, enough: threading.Event) -> None:
    while not enough.wait(0.05):
        try:
            held.sendall(b"x")
        except OSError:
            return


def _read_all(held: socket.socket) -> bytes:
    answer = b""
    try:
        while got := held.recv(65536):
            answer += got
    except ConnectionResetError:  # the last bytes came after the end
        pass
    return answer
