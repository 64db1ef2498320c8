"""Limits on requests that hold before anything is parsed: how often, how large, and how slow."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from wsgiref.handlers import format_date_time

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coordinator.http.responses import Problem, ProblemFound, problem_response
from swarm import clock
from swarm.access.join_messages import Refusal
from swarm.rate_limit import RateLimit, Tarpit, address_key
from swarm.tasks import within

logger = logging.getLogger(__name__)

LARGEST_BODY = 64 * 1024  # bytes
BODY_PATIENCE = 10.0  # seconds for a body to arrive
DELAY = 0.3  # seconds before one attempt too many is refused
MOST_DELAYED = 100  # at a time, of all connections
JOIN = "/api/join"
PERSONAL_KEY = "/api/me/key"
LIMITED = {JOIN: "attempts to join", PERSONAL_KEY: "requests for a key"}  # each for itself


@dataclass(frozen=True)
class JoinLimits:
    """How often one may try to join. A school or a family has one address, a user may have several devices."""

    per_address: int = 120  # attempts in a window
    per_user: int = 60
    window: float = 60.0  # seconds
    hub_timeout: float = 15.0  # seconds to wait for the Hub's answer about a user


class RequestLimits:
    """ASGI middleware: bodies reach the app whole and small, and no error leaves it as a traceback."""

    def __init__(self, app: ASGIApp, attempts: RateLimit, count: Callable[[str], None]):
        """`count` gets the name of each refusal to join that is made here."""
        self._app, self._attempts, self._count = app, attempts, count
        self._tarpit = Tarpit(DELAY, MOST_DELAYED)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def send_dated(message: Message) -> None:
            nonlocal started
            started = True
            if message["type"] == "http.response.start":  # volunteers compare their clock with it
                MutableHeaders(scope=message)["date"] = format_date_time(clock.now())
            await send(message)

        try:
            refusal = self._too_often(scope)
            if refusal is not None:
                await self._tarpit.wait()
            elif scope["method"] == "POST":
                body = await _read_body(Headers(scope=scope), receive)
                if isinstance(body, bytes):
                    receive = _replay(body, receive)
                else:
                    refusal = body
            await (self._app if refusal is None else refusal)(scope, receive, send_dated)
        except Exception as error:
            # neither its message nor its traceback: both may quote the request
            logger.error("%s %s failed (%s)", scope["method"], scope["path"], type(error).__name__)
            if not started:
                message = "the coordinator could not answer; try again later"
                await problem_response(Problem.UNAVAILABLE, message, status=500)(scope, receive, send)

    def _too_often(self, scope: Scope) -> Response | None:
        path = scope["path"]
        if path not in LIMITED or scope["method"] != "POST":
            return None
        client = scope.get("client")
        try:
            check_limit(self._attempts, f"{path} {address_key(client[0] if client else '')}", LIMITED[path])
        except ProblemFound as refused:
            if path == JOIN:
                self._count(refused.problem.value)
            return refused.response
        return None


def check_limit(limit: RateLimit, key: str, attempts: str) -> None:
    """Count an attempt; `attempts` says of what, for people.

    Raises:
        ProblemFound: there were too many.
    """
    if (seconds := limit.attempt(key)) is not None:
        message = f"too many {attempts}; try again in {seconds} s"
        raise ProblemFound(Refusal.TOO_MANY, message, retry_after=seconds)


async def _read_body(headers: Headers, receive: Receive) -> bytes | Response:
    """The whole body, or the response to one that is too large, too slow, or broken off."""
    announced = headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced) > LARGEST_BODY:
        return _refused(f"a request may have at most {LARGEST_BODY} bytes, this one has {announced[:20]}", 413)
    body = bytearray()
    try:
        async with within(BODY_PATIENCE):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return _refused("the request broke off", 400)
                body += message.get("body", b"")
                if len(body) > LARGEST_BODY:
                    return _refused(f"a request may have at most {LARGEST_BODY} bytes", 413)
                if not message.get("more_body", False):
                    return bytes(body)
    except asyncio.TimeoutError:
        return _refused(f"the request did not arrive within {BODY_PATIENCE:.0f} s", 408)


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _refused(message: str, status: int) -> Response:
    return problem_response(Refusal.MALFORMED, message, status=status)
