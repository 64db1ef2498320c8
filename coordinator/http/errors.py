"""Answers that are not of success: one JSON shape for all of them, and the status that goes with each."""

from collections.abc import Mapping

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from swarm.access.join_messages import Refusal, Refused

STATUS = {
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
RETRY_AFTER = {Refusal.PAUSED: 60, Refusal.HUB_AWAY: 15}  # seconds, where waiting helps
NO_STORE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class Problem(BaseModel):
    """The shape of `Refused`, for what has nothing to do with joining: `not_found`, `unavailable`."""

    model_config = ConfigDict(frozen=True)

    error: str
    message: str = Field(description="one line for people")


def refuse(refused: Refused, status: int | None = None, retry_after: int | None = None) -> JSONResponse:
    """The answer that carries a refusal, with the refusal's status unless another one says it better."""
    return answer_problem(
        Problem(error=refused.error.value, message=refused.message),
        STATUS[refused.error] if status is None else status,
        retry_after=RETRY_AFTER.get(refused.error) if retry_after is None else retry_after,
    )


def answer_problem(problem: Problem, status: int, retry_after: int | None = None) -> JSONResponse:
    """The answer that carries a problem; nobody may keep it."""
    headers: dict[str, str] = dict(NO_STORE)
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(problem.model_dump(), status, headers)


def bearer(headers: Mapping[str, str]) -> str | None:
    """The token or key that a request shows, or None if it shows none."""
    kind, _, shown = headers.get("authorization", "").strip().partition(" ")
    return shown.strip() or None if kind.lower() == "bearer" else None
