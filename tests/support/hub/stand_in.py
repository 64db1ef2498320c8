"""A stand-in for the Hugging Face Hub: a real HTTP server on loopback that knows users by their tokens.

It speaks what `huggingface_hub` calls to learn whose token it has, and what it calls to write and read repositories of
models (`tests/support/hub/routes.py`). Programs find it through `HF_ENDPOINT`.
"""

import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

import pytest

from tests.support.hub.repositories import Account, Repositories, Role
from tests.support.hub.requests import Answer, Asked, read_body
from tests.support.hub.routes import answer_about_repositories
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE


class HubStandIn:
    """`with HubStandIn() as hub`. Change `failing` and `garbled` at any time; `hold` it, or have it go `away`."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.failing: int | None = None  # answer everything with this status
        self.garbled: bytes | None = None  # answer everything with 200 and this
        self.asked: list[str] = []  # paths, in the order in which they were asked for
        self.repositories = Repositories()
        self._port = free_port()  # which nobody else is given while it is away
        self._server: ThreadingHTTPServer | None = None
        self._goes_on = threading.Event()
        self._goes_on.set()
        self.back()

    def __enter__(self) -> "HubStandIn":
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()
        self.away()

    @property
    def url(self) -> str:
        """For `HF_ENDPOINT`."""
        return f"http://127.0.0.1:{self._port}"

    def add(
        self, name: str, *organizations: str, role: Role = "fineGrained", kind: Literal["user", "org"] = "user"
    ) -> str:
        """A new token of a user; one may have several."""
        token = "hf_" + secrets.token_hex(17)
        self.accounts[token] = Account(name, organizations, role, kind)
        return token

    def revoke(self, token: str) -> None:
        """Forget a token."""
        del self.accounts[token]

    def away(self) -> None:
        """Nobody listens at the address any more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def hold(self) -> None:
        """Answer nobody until it is let go."""
        self._goes_on.clear()

    def let_go(self) -> None:
        """Answer those who wait, and everybody from now on."""
        self._goes_on.set()

    def back(self) -> None:
        """Listen again, at the same address."""
        if self._server is None:
            self._server = _Listener(("127.0.0.1", self._port), _handler(self))
            threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, asked: Asked) -> Answer:
        """What a request is answered."""
        self.asked.append(asked.target)
        assert self._goes_on.wait(PATIENCE)
        if self.failing is not None:
            return Answer.problem(self.failing, "Internal Error - We are working hard to fix this as soon as possible!")
        if self.garbled is not None:
            return Answer(200, self.garbled)
        account = self.accounts.get(asked.token)
        if asked.token and account is None:
            return Answer.problem(401, "Invalid credentials in Authorization header")
        if asked.path == "/api/whoami-v2":
            return Answer.json(whoami(account)) if account else Answer.problem(401, "Invalid username or password.")
        return answer_about_repositories(self.repositories, self.url, asked, account)


def whoami(account: Account) -> dict[str, object]:
    """What the Hub tells about the owner of a token; part of it is nobody else's business."""
    access: dict[str, object] = {
        "displayName": "sahaj",
        "role": account.role,
        "createdAt": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(0)),
    }
    if account.role == "fineGrained":
        access["fineGrained"] = {"canReadGatedRepos": False, "global": [], "scoped": []}
    if account.kind == "org":
        return {"type": "org", "id": _id(account.name), "name": account.name, "auth": {"type": "access_token"}}
    return {
        "type": "user",
        "id": _id(account.name),
        "name": account.name,
        "fullname": f"{account.name} the private",
        "email": f"{account.name}@private.example",
        "avatarUrl": f"/avatars/{_id(account.name)}.svg",
        "orgs": [
            {
                "type": "org",
                "id": _id(name),
                "name": name,
                "fullname": name.title(),
                "roleInOrg": "contributor",
            }
            for name in account.organizations
        ],
        "auth": {"type": "access_token", "accessToken": access},
    }


@pytest.fixture
def hub_stand_in(monkeypatch: pytest.MonkeyPatch):
    """A stand-in to which this process and those it starts go."""
    with HubStandIn() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")  # large files come in the other way that the Hub has for them
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)  # it was read while importing
        yield hub


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True


def _handler(hub: HubStandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                target = self.path.partition("?")[0]
                line = hub.repositories.line_of(self.command, target)
                body = read_body(self.rfile, self.headers, line)
                if body is None:  # the line is cut
                    return
                answer = hub.answer(Asked(self.command, self.path, dict(self.headers.items()), body))
                if not line.answered:
                    return
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(answer.length))
                self.send_header("X-Request-Id", f"Root=1-{secrets.token_hex(4)}")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.body)
            except ConnectionError:
                return  # whoever asked did not wait for a slow answer

        do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815  (the server asks for these names)

        def log_message(self, *_: object) -> None:
            """Tests read their own output."""

    return Handler


def _id(name: str) -> str:
    """24 hexadecimal digits, as the Hub's."""
    return name.encode().hex().ljust(24, "0")[:24]
