"""Requests to the Hub's stand-in and its answers: what all its routes work with."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from functools import cached_property
from io import BufferedIOBase
from typing import Any

from tests.support.hub.repositories import Account, Line, Repositories, Repository
from tests.support.waiting import PATIENCE

BLOCK = 1 << 14  # bytes


@dataclass(frozen=True)
class Asked:
    """A request."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def path(self) -> str:
        """Without the question."""
        return self.target.partition("?")[0]

    @cached_property
    def token(self) -> str:
        """The one that was shown, or none."""
        named = {name.lower(): value for name, value in self.headers.items()}
        return named.get("authorization", "").removeprefix("Bearer ")

    def content(self) -> Any:
        """The body, which is JSON."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """A response; `length` is that of the body, also where HEAD leaves it out."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json; charset=utf-8"})

    @property
    def length(self) -> int:
        """Bytes."""
        return len(self.body)

    @classmethod
    def json(cls, content: object, status: int = 200) -> "Answer":
        """Data."""
        return cls(status, json.dumps(content).encode())

    @classmethod
    def problem(cls, status: int, message: str, code: str = "") -> "Answer":
        """As the Hub says what is wrong."""
        headers = {"Content-Type": "application/json; charset=utf-8", "X-Error-Message": message}
        return cls(status, json.dumps({"error": message}).encode(), headers | ({"X-Error-Code": code} if code else {}))


@dataclass(frozen=True)
class House:
    """Who asks, and what there is."""

    repositories: Repositories
    url: str
    account: Account | None

    def repository(self, found: re.Match[str]) -> Repository | None:
        """The one that is asked for, if whoever asks may see it."""
        one = self.repositories.by_name.get(found["name"])
        if one is not None and one.private and not (self.account and self.account.is_member(one.name)):
            return None
        return one

    def may_write(self, found: re.Match[str]) -> bool:
        """Whether whoever asks may change it."""
        return self.account is not None and self.account.may_write(found["name"].partition("/")[0])


def read_body(stream: BufferedIOBase, headers: Message, line: Line) -> bytes | None:
    """The body of a request, or None where the line is cut in the middle of it."""
    body = bytearray()
    for block in _blocks(stream, headers):
        body += block
        if line.cut_after is not None and len(body) > line.cut_after:
            return None
        if line.held_after is not None and len(body) > line.held_after:
            line.holding.set()
            line.go_on.wait(PATIENCE)
    expected = headers.get("Content-Length")
    if expected is not None and len(body) < int(expected):
        return None  # whoever sends has died
    return bytes(body)


def _blocks(stream: BufferedIOBase, headers: Message) -> Any:
    if headers.get("Transfer-Encoding", "").lower() == "chunked":
        while size := int(stream.readline().split(b";")[0] or b"0", 16):
            yield stream.read(size)
            stream.readline()
        stream.readline()
        return
    left = int(headers.get("Content-Length") or 0)
    while left and (block := stream.read(min(left, BLOCK))):
        left -= len(block)
        yield block
