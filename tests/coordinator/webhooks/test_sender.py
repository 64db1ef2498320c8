"""Webhooks over a socket: formats, services that fail or hang, and secrets that stay secret."""

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from coordinator.webhooks.sender import PENDING, WebhookError, Webhooks, may_pass, read_webhooks
from swarm.secret_variables import WEBHOOKS
from tests.support.waiting import PATIENCE, wait_until

SECRET = "hidden-word"
DISCORD = f"/api/webhooks/123/{SECRET}"
SLACK = f"/services/T0/B0/{SECRET}"
MATRIX = "/_matrix/client/v3/rooms/!river:example.org/send/m.room.message"


@dataclass
class Rooms:
    """A service that keeps what it was sent; `failing` has the answers to the next requests."""

    url: str = ""
    got: list[tuple[str, str, str | None, Any]] = field(default_factory=list)
    failing: list[int] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.got) >= count, lambda: f"{count} requests, but {self.got}")


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rooms]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("coordinator.webhooks.sender.FIRST_PAUSE", 0.001)
    made = Rooms()
    made.go_on.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.got.append((self.command, self.path, self.headers["Authorization"], json.loads(body)))
            made.go_on.wait(PATIENCE)
            self.send_response(made.failing.pop(0) if made.failing else 200)
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_PUT = do_POST  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield made
    made.go_on.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_each_service_is_told_in_its_format(rooms: Rooms) -> None:
    said: list[str] = []
    urls = [rooms.url + DISCORD, rooms.url + SLACK, f"{rooms.url}{MATRIX}?access_token={SECRET}"]
    hooks = Webhooks(urls, said.append)
    hooks.tell("নদী\nJoin")
    rooms.wait_for(3)
    hooks.finish(PATIENCE)
    got = {path: (method, authorization, body) for method, path, authorization, body in rooms.got}
    assert got.pop(DISCORD) == ("POST", None, {"content": "নদী\nJoin", "allowed_mentions": {"parse": []}})
    assert got.pop(SLACK) == ("POST", None, {"text": "নদী\nJoin"})
    ((path, sent),) = got.items()
    assert path.startswith(f"{MATRIX}/") and len(path) > len(MATRIX) + 8 and "?" not in path
    assert sent == ("PUT", f"Bearer {SECRET}", {"msgtype": "m.notice", "body": "নদী\nJoin"})
    assert said == []


def test_a_message_is_tried_again_with_the_same_number_and_in_order(rooms: Rooms) -> None:
    said: list[str] = []
    rooms.failing = [500, 429]
    hooks = Webhooks([f"{rooms.url}{MATRIX}?access_token={SECRET}"], said.append)
    hooks.tell("first")
    hooks.tell("second")
    rooms.wait_for(4)
    hooks.finish(PATIENCE)
    assert [body["body"] for *_, body in rooms.got] == ["first"] * 3 + ["second"]
    assert len({path for _, path, *_ in rooms.got}) == 2
    assert said == []


def test_a_webhook_that_is_gone_is_reported_once_without_its_address(
    rooms: Rooms, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in ("httpx", "httpcore"):  # the program logs nothing of theirs below a warning
        monkeypatch.setattr(logging.getLogger(library), "level", logging.WARNING)
    caplog.set_level(logging.DEBUG)
    said: list[str] = []
    rooms.failing = [404, 404, 200, 404]
    hooks = Webhooks([rooms.url + DISCORD], said.append)
    for count in range(1, 5):
        hooks.tell("news")
        rooms.wait_for(count)
    hooks.finish(PATIENCE)
    assert len(rooms.got) == 4
    assert len(said) == 2, "once for each time that it has failed after it had worked"
    assert said[0].startswith("problem: the webhook at 127.0.0.1 takes no messages (HTTP 404); the run goes on")
    refused = Webhooks([f"http://127.0.0.1:1{SLACK}"], said.append)
    refused.tell("news")
    wait_until(lambda: len(said) == 3, "a problem")
    refused.finish(PATIENCE)
    assert "(ConnectError)" in said[2]
    assert SECRET not in "".join(said) + caplog.text


def test_a_message_that_cannot_be_sent_silences_no_later_one(rooms: Rooms) -> None:
    said: list[str] = []
    hooks = Webhooks([rooms.url + SLACK], said.append)
    hooks.tell("\ud800")  # no UTF-8
    hooks.tell("news")
    rooms.wait_for(1)
    hooks.finish(PATIENCE)
    assert [body["text"] for *_, body in rooms.got] == ["news"]
    assert len(said) == 1 and "(UnicodeEncodeError)" in said[0]


def test_a_service_that_hangs_holds_nobody_up_and_fills_no_memory(rooms: Rooms) -> None:
    said: list[str] = []
    rooms.go_on.clear()
    hooks = Webhooks([rooms.url + SLACK], said.append)
    hooks.tell("held")
    rooms.wait_for(1)
    for number in range(3 * PENDING):
        hooks.tell(f"news {number}")
    assert len(said) == 1 and "does not keep up" in said[0]
    hooks.finish(0.0)
    rooms.go_on.set()
    rooms.wait_for(1 + PENDING)
    assert [body["text"] for *_, body in rooms.got] == ["held", *(f"news {number}" for number in range(PENDING))]


@pytest.mark.parametrize(
    "wrong", [SECRET, f"http://rooms.example.org/{SECRET}", f"ftp://rooms/{SECRET}", f"https://[{SECRET}", "https:///x"]
)
def test_what_is_no_webhook_is_refused_by_its_place(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good = "https://discord.com/api/webhooks/1/a"
    monkeypatch.setenv(WEBHOOKS, f"{good}  {wrong}")
    with pytest.raises(WebhookError, match=r"^SAHAJ_WEBHOOKS: entry 2 is not an https URL") as caught:
        read_webhooks()
    assert SECRET not in str(caught.value) and caught.value.__context__ is None
    monkeypatch.setenv(WEBHOOKS, f" {good} ")
    assert read_webhooks() == [good]
    monkeypatch.delenv(WEBHOOKS)
    assert read_webhooks() == []


def test_only_what_may_pass_is_tried_again() -> None:
    assert [status for status in (400, 401, 403, 404, 408, 429, 500, 503) if may_pass(status)] == [408, 429, 500, 503]
