"""A client of the coordinator's API that all sessions share: each request is made at most once in its interval.

While an answer is renewed, and while the coordinator is away, readers get the last one. `st.cache_data` does neither:
when an answer expires it makes every reader wait for the next, and it has none if that fails. Requests that were not
made for long are forgotten, so that the process does not grow.
"""

import ipaddress
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import TypeAdapter, ValidationError

from dashboard.api.answers import Checkpoint, Experts, Fill, History, Leader, Machines, Person, Progress, Run
from dashboard.api.problem import Problem
from dashboard.api.team_answers import Team, TeamPage
from dashboard.language import mark

T = TypeVar("T")

CONNECT_PATIENCE, PATIENCE = 3.0, 10.0  # seconds
WORTH_WAITING = 0.25  # seconds to wait for a newer answer where there is an older one
MOST_QUESTIONS = 300  # remembered; the pages themselves ask about a dozen, and one for each person looked at
MOST_AT_A_TIME = 4  # requests
LONGEST_ANSWER = 16 << 20  # bytes
TOO_LATE = mark("the coordinator did not answer in time")
POINTS = 600  # of a curve: more cannot be told apart on a screen


class Away(Problem):
    """The coordinator does not answer, and nothing is known from before."""


class NotThere(Exception):
    """The run has no person or team of that name."""


@dataclass(frozen=True)
class Found(Generic[T]):
    """An answer, and whether it is the newest one."""

    value: T
    at: float  # unix time
    problem: str | None = None  # why there is none that is newer, if the coordinator did not answer last time


@dataclass
class _Question:
    due: float = float("-inf")  # by the clock of the coordinator's client
    pending: "Future[None] | None" = None
    found: Found[Any] | None = None
    problem: Exception | None = None


@dataclass
class Coordinator:
    """The API at a URL, shared by all sessions. Each method may raise `Away`."""

    url: str
    refresh: float  # seconds
    clock: Callable[[], float] = time.monotonic
    _questions: OrderedDict[str, _Question] = field(default_factory=OrderedDict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self._http = httpx.Client(
            base_url=self.url,
            timeout=httpx.Timeout(PATIENCE, connect=CONNECT_PATIENCE),
            trust_env=not is_loopback(self.url),  # a proxy would look for loopback on its own machine
        )
        self._workers = ThreadPoolExecutor(MOST_AT_A_TIME, thread_name_prefix="coordinator")

    def run(self) -> Found[Run]:
        """What the run is."""
        return self._ask("/api/run", Run, 12)

    def progress(self) -> Found[Progress]:
        """Where it is."""
        return self._ask("/api/progress", Progress, 1)

    def history(self) -> Found[History]:
        """Its tables."""
        return self._ask("/api/history", History, 6, points=str(POINTS))

    def fills(self) -> Found[list[Fill]]:
        """What its checkpoints fill into the fixed sentences, oldest first."""
        return self._ask("/api/fills", list[Fill], 12)

    def checkpoints(self) -> Found[list[Checkpoint]]:
        """Those that the coordinator holds, oldest first."""
        return self._ask("/api/checkpoints", list[Checkpoint], 6)

    def leaders(self, period: str) -> Found[list[Leader]]:
        """Who did how much in a `day`, a `week` or the `run`."""
        return self._ask("/api/leaderboard", list[Leader], 6, period=period)

    def person(self, user: str) -> Found[Person]:
        """A person; raises `NotThere`."""
        return self._ask("/api/person", Person, 6, user=user)

    def badge(self, user: str) -> Found[bytes]:
        """A person's badge, an SVG image; raises `NotThere`."""
        return self._ask("/api/badge.svg", bytes, 12, user=user)

    def card(self, user: str, language: str) -> Found[bytes]:
        """An image of what a person gave, for them to share, in a language; raises `NotThere`."""
        return self._ask("/api/card.svg", bytes, 12, user=user, lang=language)

    def teams(self, period: str) -> Found[list[Team]]:
        """Teams, in a `day`, a `week` or the `run`."""
        return self._ask("/api/teams", list[Team], 6, period=period)

    def team(self, name: str) -> Found[TeamPage]:
        """A team; raises `NotThere`."""
        return self._ask("/api/team", TeamPage, 6, name=name)

    def machines(self) -> Found[Machines]:
        """What it is computed on."""
        return self._ask("/api/machines", Machines, 6)

    def experts(self) -> Found[Experts]:
        """Who hosts which, in a run with experts."""
        return self._ask("/api/experts", Experts, 2)

    def thanks(self) -> Found[str]:
        """The wall of thanks, as Markdown."""
        return self._ask("/api/thanks.md", str, 12)

    def _ask(self, path: str, kind: Any, intervals: int, **parameters: str) -> Found[Any]:
        """The newest answer of some kind that may be had.

        Args:
            intervals: how many refresh intervals an answer is kept.

        Raises:
            Away: there is none.
            NotThere: the run has no person of that name.
        """
        key = json.dumps([path, parameters])
        with self._lock:
            question = self._questions.setdefault(key, _Question())
            self._questions.move_to_end(key)
            while len(self._questions) > MOST_QUESTIONS:
                self._questions.popitem(last=False)
            if question.pending is None and self.clock() >= question.due:
                question.due = self.clock() + intervals * self.refresh
                question.pending = self._workers.submit(self._renew, question, path, kind, parameters)
            pending = question.pending
        if pending is not None:
            wait([pending], timeout=2 * PATIENCE if question.found is None else WORTH_WAITING)
        if question.found is not None:
            return question.found
        raise question.problem or Away(mark("the coordinator has not answered yet"))

    def _renew(self, question: _Question, path: str, kind: Any, parameters: dict[str, str]) -> None:
        """In a worker. What is not understood counts as no answer."""
        try:
            value = _read(self._get(path, parameters), kind)
            question.found, question.problem = Found(value, time.time()), None
        except NotThere as missing:
            question.found, question.problem = None, missing
        except ValidationError:
            self._keep_old(question, Away(mark("{url} answers, but not as a coordinator of Sahaj does"), url=self.url))
        except Away as away:
            self._keep_old(question, away)
        finally:
            with self._lock:
                question.pending = None

    def _keep_old(self, question: _Question, problem: Away) -> None:
        question.problem = problem
        question.due = self.clock() + self.refresh  # its sign of life is looked for as often as anything
        if question.found is not None:
            question.found = Found(question.found.value, question.found.at, str(problem))

    def _get(self, path: str, parameters: dict[str, str]) -> bytes:
        until = time.monotonic() + PATIENCE
        try:
            with self._http.stream("GET", path, params=parameters) as answer:
                status = answer.status_code
                if status in (404, 422) and parameters.keys() & {"user", "name"}:  # 422: nobody could have that name
                    raise NotThere(path)
                if status != 200:
                    raise Away(mark("the coordinator cannot answer now (status {status})"), status=status)
                content = bytearray()
                for piece in answer.iter_bytes():
                    content += piece
                    if len(content) > LONGEST_ANSWER:
                        raise Away(mark("the coordinator's answer is longer than {n} MB"), n=LONGEST_ANSWER >> 20)
                    if time.monotonic() > until:
                        raise Away(TOO_LATE)
                return bytes(content)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Away(_in_words(error)) from None


def _read(content: bytes, kind: Any) -> Any:
    """An answer as it is, as text, or as the model that its JSON is of."""
    if kind is str:
        return content.decode("utf-8", "replace")
    return content if kind is bytes else _reader(kind).validate_json(content)


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _in_words(error: Exception) -> str:
    if isinstance(error, httpx.TimeoutException):
        return TOO_LATE
    if isinstance(error, httpx.ConnectError):
        return mark("nobody answers at the coordinator's address")
    return mark("the connection to the coordinator broke off")


def is_loopback(url: str) -> bool:
    """Whether the URL leads nowhere but to the machine that it is used on."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_private(url: str) -> bool:
    """Whether nobody can read along: the connection is encrypted, or stays within one machine."""
    return url.startswith("https://") or is_loopback(url)
