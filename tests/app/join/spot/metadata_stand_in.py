"""A stand-in for Amazon's metadata service: a real HTTP server that answers as documented."""

import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class MetadataStandIn:
    """Gives notice once `taken_away` is set. `answered` counts the answers."""

    def __init__(self) -> None:
        self.taken_away = self.failing = False
        self.answered = 0
        self._tokens: set[str] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    def __enter__(self) -> "MetadataStandIn":
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        """Status and body."""
        if self.failing:
            return 500, ""
        if (method, path) == ("PUT", "/latest/api/token"):
            if not 1 <= int(headers.get("x-aws-ec2-metadata-token-ttl-seconds", 0)) <= 21600:
                return 400, ""
            self._tokens.add(token := secrets.token_urlsafe(40))
            return 200, token
        if headers.get("x-aws-ec2-metadata-token") not in self._tokens:
            return 401, ""
        if path != "/latest/meta-data/spot/instance-action" or not self.taken_away:
            return 404, ""
        return 200, json.dumps({"action": "terminate", "time": "2026-11-22T08:22:00Z"})


def _handler(cloud: MetadataStandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, body = cloud.answer(self.command, self.path, headers)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())
            cloud.answered += 1

        do_PUT = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Tests read their own output."""

    return Handler
