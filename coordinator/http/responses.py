"""Responses: answers that are found at most once in some seconds, however many clients ask, or why there is none."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

from fastapi import Security
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPBearer
from pydantic import BaseModel, Field

from coordinator.cached import Cached
from swarm.access.join_messages import Message, Refusal, Refused

T = TypeVar("T")

CACHE_SECONDS = 5
LONG_CACHE_SECONDS = 60  # for what hardly changes


def cache_headers(seconds: int) -> dict[str, str]:
    """The headers of a response that any cache may store for so many seconds; 0: none may."""
    keep = f"public, max-age={seconds}" if seconds else "no-store"
    return {"Cache-Control": keep, "X-Content-Type-Options": "nosniff"}


def json_response(answer: BaseModel, seconds: int = 0, status: int = 200) -> Response:
    """The answer as JSON, which caches may store for so many seconds."""
    return _json(answer.model_dump_json(by_alias=True).encode(), seconds, status)


class CachedJson:
    """A response whose answer is found and written as JSON at most once in `CACHE_SECONDS`."""

    def __init__(self, find: Callable[[], BaseModel | Sequence[BaseModel]]):
        self._content = Cached(lambda: _content(find()), CACHE_SECONDS)

    def __call__(self) -> Response:
        """The response."""
        return _json(self._content(), CACHE_SECONDS)


def _content(answer: BaseModel | Sequence[BaseModel]) -> bytes:
    if isinstance(answer, BaseModel):
        return answer.model_dump_json().encode()
    return b"[" + b",".join(one.model_dump_json().encode() for one in answer) + b"]"


def _json(content: bytes, seconds: int, status: int = 200) -> Response:
    return Response(content, status, headers=cache_headers(seconds), media_type="application/json")


class Problem(str, Enum):
    """Problems that have nothing to do with joining; those that have are a `Refusal`."""

    NOT_FOUND = "not_found"
    NOT_POSSIBLE = "not_possible"  # with a status of its own
    UNAVAILABLE = "unavailable"


STATUS = {
    Problem.NOT_FOUND: 404,
    Problem.UNAVAILABLE: 503,
    Refusal.MALFORMED: 422,
    Refusal.TOKEN_MISSING: 401,
    Refusal.TOKEN_REJECTED: 401,
    Refusal.NOT_ALLOWED: 403,
    Refusal.BANNED: 403,
    Refusal.WRONG_VERSION: 426,
    Refusal.WRONG_FINGERPRINT: 409,
    Refusal.PAUSED: 503,
    Refusal.FINISHED: 410,
    Refusal.TOO_MANY: 429,
    Refusal.HUB_AWAY: 503,
}
RETRY_AFTER: dict[Problem | Refusal, int] = {Refusal.PAUSED: 60, Refusal.HUB_AWAY: 15}  # seconds, if waiting helps
NO_STORE = cache_headers(0)


class ProblemAnswer(Message):
    """The JSON of every problem; `Refused` has the same shape."""

    error: str
    message: str = Field(description="one line for people")


NOT_FOUND: dict[int | str, dict[str, Any]] = {404: {"model": ProblemAnswer}}
UNAVAILABLE: dict[int | str, dict[str, Any]] = {503: {"model": ProblemAnswer}}


def problem_response(
    problem: Problem | Refusal, message: str, *, status: int | None = None, retry_after: int | None = None
) -> JSONResponse:
    """The response that says what the problem is; no cache may store it.

    Args:
        message: one line for people.
        status: by default the one of the problem.
        retry_after: seconds, by default those of the problem.
    """
    status = status or STATUS[problem]
    retry_after = retry_after or RETRY_AFTER.get(problem)
    headers = dict(NO_STORE)
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"error": problem.value, "message": message}, status, headers)


class ProblemFound(Exception):
    """Ends a request with the response that says what the problem is; for the arguments see `problem_response`."""

    def __init__(self, problem: Problem | Refusal, message: str, *, retry_after: int | None = None):
        super().__init__(message)
        self.problem, self.response = problem, problem_response(problem, message, retry_after=retry_after)


def accepted(answer: T | Refused) -> T:
    """What was not refused.

    Raises:
        ProblemFound: it was.
    """
    if isinstance(answer, Refused):
        raise ProblemFound(answer.error, answer.message)
    return answer


TOKEN_SHOWN = Security(HTTPBearer(auto_error=False, scheme_name="Hugging Face token"))  # for /docs; `bearer` reads it


def bearer(headers: Mapping[str, str]) -> str | None:
    """The token or key that a request shows, or None if it shows none."""
    kind, _, shown = headers.get("authorization", "").strip().partition(" ")
    return shown.strip() or None if kind.lower() == "bearer" else None
