"""Responses that are found at most once in some seconds, however many clients ask, and headers for other caches."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from fastapi.responses import Response
from pydantic import BaseModel

T = TypeVar("T")
CACHE_SECONDS = 5
LONG_CACHE_SECONDS = 60  # for what hardly changes


def cache_headers(seconds: int) -> dict[str, str]:
    """The headers of a response that any cache may store for so many seconds; 0: none may."""
    keep = f"public, max-age={seconds}" if seconds else "no-store"
    return {"Cache-Control": keep, "X-Content-Type-Options": "nosniff"}


def json_response(answer: BaseModel, seconds: int, status: int = 200) -> Response:
    """The answer as JSON, which caches may store for so many seconds."""
    return _json(answer.model_dump_json().encode(), seconds, status)


class Cached(Generic[T]):
    """A value that is costly to find. While one thread finds it anew, the others get the old one."""

    def __init__(self, find: Callable[[], T], seconds: float, clock: Callable[[], float] = time.monotonic):
        self._find, self._seconds, self._clock = find, seconds, clock
        self._lock = threading.Lock()
        self._found: tuple[float, T] | None = None  # until when it is good

    def __call__(self) -> T:
        """The value, at most so many seconds old; an error is not cached."""
        known = self._found
        if known is not None and self._clock() < known[0]:
            return known[1]
        if not self._lock.acquire(blocking=known is None):
            assert known is not None, "otherwise the lock was waited for"
            return known[1]
        try:
            newest = self._found
            if newest is not known and newest is not None:  # another thread found it while this one waited
                return newest[1]
            value = self._find()
            self._found = (self._clock() + self._seconds, value)
            return value
        finally:
            self._lock.release()


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
