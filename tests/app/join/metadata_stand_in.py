"""A stand-in for the metadata services of clouds: a real HTTP server that answers as each of them documents."""

import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

OWN = "volunteer_1"  # name of this machine
CloudName = Literal["Amazon", "Google", "Azure"]


class MetadataStandIn:
    """`with MetadataStandIn("Amazon") as cloud`; `cloud.take_away()` gives notice. `answered` counts the answers."""

    def __init__(self, name: CloudName):
        self.name, self.taken_away, self.failing = name, False, False
        self.machines, self.answered = [OWN], 0
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

    def take_away(self, *machines: str) -> None:
        """This machine, or others of its availability set."""
        self.machines = list(machines) or [OWN]
        self.taken_away = True

    def answer(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        """Status and body."""
        if self.failing:
            return 500, ""
        return {"Amazon": self._amazon, "Google": self._google, "Azure": self._azure}[self.name](method, path, headers)

    def _amazon(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
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

    def _google(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        if headers.get("metadata-flavor") != "Google":
            return 403, ""
        if path != "/computeMetadata/v1/instance/preempted":
            return 404, ""
        return 200, "TRUE" if self.taken_away else "FALSE"

    def _azure(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        if headers.get("metadata") != "true":
            return 400, json.dumps({"error": "Bad request. Required metadata header not specified"})
        if path == "/metadata/instance/compute/name?api-version=2021-02-01&format=text":
            return 200, OWN
        if path != "/metadata/scheduledevents?api-version=2020-07-01":
            return 404, ""
        reboot = {"EventId": "1", "EventType": "Reboot", "Resources": [OWN], "NotBefore": ""}
        preempt = {"EventId": "2", "EventType": "Preempt", "NotBefore": "Mon, 22 Nov 2026 08:22:00 GMT"} | {
            "Resources": self.machines
        }
        events = [reboot, preempt] if self.taken_away else [reboot]
        return 200, json.dumps({"DocumentIncarnation": 1, "Events": events})


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
