"""Coordinators to look at: a switch before them that can be turned, and one that counts what it is asked."""

import contextlib
import json
import socket
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.support.waiting import PATIENCE

AWAY = None


class Switch:
    """A port that leads to one address or another, or to nobody; turning it breaks what is open.

    `asked` counts the requests that went through.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.asked = 0
        self._target: tuple[str, int] | None = AWAY
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, url: str | None) -> None:
        """To the service at a URL; None: whoever comes is sent away."""
        parts = urlsplit(url or "")
        with self._lock:
            self._target = (str(parts.hostname), int(parts.port or 80)) if url else AWAY
            for one in self._open:
                _end(one)
            self._open.clear()

    def close(self) -> None:
        """For good."""
        self.lead_to(AWAY)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                target = self._target
            try:
                far = socket.create_connection(target, timeout=5) if target else None
            except OSError:
                far = None
            if far is None:
                near.close()
                continue
            far.settimeout(None)
            with self._lock:
                self._open |= {near, far}
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while piece := one.recv(65536):
                self.asked += piece.startswith(b"GET ")
                other.sendall(piece)
        except OSError:
            pass
        finally:
            with self._lock:
                self._open -= {one, other}
            _end(one)
            _end(other)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side was quicker
        one.shutdown(socket.SHUT_RDWR)
    one.close()


class CountingServer:
    """Speaks HTTP; gives what stands in `answers` by path, and counts what it is asked.

    While `go_on` is cleared nobody gets an answer.
    """

    def __init__(self, answers: dict[str, Any]):
        self.answers, self.asked = answers, Counter[str]()
        self.go_on, self.status, self.closed = threading.Event(), 200, False
        self.go_on.set()
        lock, outer = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # an answer is one packet: the second of two would wait for word of the first

            def log_message(self, *_: Any) -> None:
                """Nothing."""

            def do_GET(self) -> None:
                if outer.closed:
                    self.close_connection = True
                    return
                path = urlsplit(self.path).path
                with lock:
                    outer.asked[path] += 1
                assert outer.go_on.wait(PATIENCE)
                found = path in outer.answers
                body = json.dumps(outer.answers.get(path)).encode()
                self.send_response(outer.status if found else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Nobody answers any more."""
        self.closed = True
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()
