"""Responses that say why there is no answer: one JSON shape, and the status of each problem."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from coordinator.http.response_cache import cache_headers
from swarm.access.join_messages import Refusal


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


class ProblemAnswer(BaseModel):
    """The JSON of every problem; `Refused` has the same shape."""

    model_config = ConfigDict(frozen=True)

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


def bearer(headers: Mapping[str, str]) -> str | None:
    """The token or key that a request shows, or None if it shows none."""
    kind, _, shown = headers.get("authorization", "").strip().partition(" ")
    return shown.strip() or None if kind.lower() == "bearer" else None
