"""Answers that may be kept for a while, here and on the way to whoever reads them."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi.responses import Response
from pydantic import BaseModel

from coordinator.http.desk import Remembered
from coordinator.http.errors import Problem

KEPT = 5  # seconds that figures may be kept
KEPT_LONGER = 60  # seconds, for what hardly changes
NOT_FOUND: dict[int | str, dict[str, Any]] = {404: {"model": Problem}}
UNAVAILABLE: dict[int | str, dict[str, Any]] = {503: {"model": Problem}}


def kept_headers(seconds: int) -> dict[str, str]:
    """The headers of an answer that anybody may keep for so many seconds; 0: nobody may."""
    keep = f"public, max-age={seconds}" if seconds else "no-store"
    return {"Cache-Control": keep, "X-Content-Type-Options": "nosniff"}


def kept(answer: BaseModel | list[Any], seconds: int) -> Callable[[], Response]:
    """The answer as JSON, written once however often it is given."""
    if isinstance(answer, list):
        content = b"[" + b",".join(one.model_dump_json().encode() for one in answer) + b"]"
    else:
        content = answer.model_dump_json().encode()
    return lambda: Response(content, headers=kept_headers(seconds), media_type="application/json")


class RememberedByName:
    """Answers of which each is found at most once in so many seconds; those that were asked for last are remembered."""

    def __init__(self, find: Callable[[str], Callable[[], Response]], seconds: float, most: int):
        self._find, self._seconds, self._most = find, seconds, most
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Remembered[Callable[[], Response]]] = OrderedDict()

    def __call__(self, name: str) -> Response:
        """The answer to this name."""
        with self._lock:
            answer = self._known.setdefault(name, Remembered(partial(self._find, name), self._seconds))
            self._known.move_to_end(name)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return answer()()
