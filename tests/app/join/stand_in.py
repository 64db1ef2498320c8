"""A small HTTP server on loopback that says what a test wants: a coordinator, the Hub, or something else."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OPEN_RUN: dict[str, Any] = {"name": "little", "version": "0.1.0", "access": {"open": True}}  # of GET /api/run


@dataclass
class Answer:
    status: int = 200
    body: bytes | str | dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0  # seconds

    def content(self) -> bytes:
        if isinstance(self.body, dict):
            return json.dumps(self.body).encode()
        return self.body.encode() if isinstance(self.body, str) else self.body


@dataclass
class Heard:
    method: str
    path: str
    bearer: str | None
    body: Any


class StandIn:
    """`answers` maps "METHOD /path" to an answer, or to what makes one from the request."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer | Callable[[Heard], Answer]] = {}
        self.heard: list[Heard] = []
        self.clock_offset = 0.0  # seconds by which its clock is ahead
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer("GET")

            def do_POST(self) -> None:
                self.answer("POST")

            def do_DELETE(self) -> None:
                self.answer("DELETE")

            def answer(self, method: str) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                bearer = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
                heard = Heard(method, self.path, bearer, body)
                outer.heard.append(heard)
                answer = outer.answers.get(f"{method} {self.path}", Answer(404, "<html>not here</html>"))
                answer = answer(heard) if callable(answer) else answer
                time.sleep(answer.delay)
                content = answer.content()
                self.send_response(answer.status)
                for name, value in ({"Content-Length": str(len(content))} | answer.headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def date_time_string(self, timestamp: float | None = None) -> str:
                return formatdate(time.time() + outer.clock_offset, usegmt=True)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
