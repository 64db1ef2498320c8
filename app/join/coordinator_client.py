"""HTTP client of the coordinator, for volunteers and organizers: each failure is a `JoinProblem` of one line.

What answers at a URL may be broken or hostile: answers are read up to a limit, redirects are never followed to
another host, and no header or token appears in a message.
"""

import time
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Annotated, Any, TypeVar
from urllib.parse import quote, urljoin, urlsplit

import httpx
from pydantic import AfterValidator, Base64Bytes, Field, TypeAdapter, ValidationError

from app.join.address import coordinator_url, is_loopback
from app.join.problems import JoinProblem, ProblemKind, certificates_problem, explain, one_line, proxy_problem
from app.join.proxy import proxy_for
from app.join.refusals import told
from swarm.access.join_messages import JoinAnswer, JoinRequest, Message, Refused
from swarm.access.pause_messages import PAUSE_ORDER, OrderAnswer, OrderQuestion
from swarm.clock import describe_offset
from swarm.language import _, mark

RUN = "/api/run"
PATIENCE = 15.0  # seconds to wait for an answer; the coordinator may have to ask the Hub meanwhile
CONNECT_PATIENCE = 6.0  # seconds
LONGEST_ANSWER = 1 << 20  # bytes of JSON
LONGEST_RETRY_AFTER = 3600.0  # seconds before another try, whatever is asked for
CLOCK_TOLERANCE = 30.0  # seconds
GATEWAY_STATUS = (500, 502, 503, 504)  # the coordinator has a problem, or a proxy finds it away

T = TypeVar("T")


class Access(Message):
    """Who may join a run."""

    open: bool = False


class RunDescription(Message):
    """Of `GET /api/run`, what is used here."""

    name: Annotated[str, AfterValidator(one_line)]
    access: Access
    version: str = Field(max_length=40)
    language: str = Field("", max_length=40)
    dashboard: str = ""


class Notebook(Message):
    """Of a notebook, what every one has."""

    nbformat: int
    cells: list[dict[str, Any]]


class SignedNotices(Message):
    """Of `GET /api/notices`, what peers use."""

    signed: Base64Bytes


class Unavailable(Message):
    """The body of an error that is no refusal."""

    error: str
    message: str


class CoordinatorClient:
    """Speaks to one coordinator, and raises a `JoinProblem` wherever it fails.

    `base` is the coordinator's URL; it changes if the coordinator redirects to HTTPS. `ahead` are the seconds by which
    its clock is ahead of this machine's, from the newest answer.

    Args:
        tolerance: seconds by which the clocks may differ.
    """

    def __init__(self, url: str, *, patience: float = PATIENCE, tolerance: float = CLOCK_TOLERANCE):
        self.base = coordinator_url(url)
        self.ahead: float | None = None
        self._tolerance = tolerance
        proxy = proxy_for(self.base)
        self._proxy = proxy.shown if proxy else ""
        try:
            self._client = httpx.Client(
                timeout=httpx.Timeout(patience, connect=min(patience, CONNECT_PATIENCE)),
                # a proxy would look for loopback on its own machine
                trust_env=not is_loopback(self.base),
                headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "sahaj"},
            )
        except OSError as error:
            raise certificates_problem(self.base, error) from None
        except (ValueError, ImportError, httpx.InvalidURL):  # such as SOCKS, for which httpx needs another package
            raise proxy_problem(
                self.base,
                self._proxy or _("in the environment"),
                _("it cannot use proxies of this kind, such as SOCKS"),
            ) from None

    def __enter__(self) -> "CoordinatorClient":
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.close()

    def run(self) -> RunDescription:
        """What the run is, also if this program may not join it; follows a redirect to HTTPS."""
        return self.parse(RunDescription, self.ask("GET", RUN))

    def join(self, request: JoinRequest, token: str | None) -> JoinAnswer:
        """Ask for a pass, or for a newer one."""
        content = self.ask("POST", "/api/join", bearer=token, body=request.model_dump(mode="json"))
        return self.parse(JoinAnswer, content)

    def notebook(self) -> bytes:
        """The run's notebook, which installs the program that its coordinator has."""
        self.run()  # follows a redirect to HTTPS
        content = self.ask("GET", "/join.ipynb")
        self.parse(Notebook, content)
        return content

    def notices(self) -> bytes:
        """The organizer's notices, signed."""
        return self.parse(SignedNotices, self.ask("GET", "/api/notices")).signed

    def pause_order(self, question: OrderQuestion) -> bool:
        """Whether the person of this machine wants it to pause."""
        content = self.ask("POST", PAUSE_ORDER, body=question.model_dump(mode="json", by_alias=True))
        return self.parse(OrderAnswer, content).paused

    def tokenizer_file(self, name: str, size: int) -> bytes:
        """Download a file of at most so many bytes."""
        return self.ask("GET", f"/api/tokenizer/{quote(name, safe='')}", at_most=size)

    def ask(
        self,
        method: str,
        path: str,
        *,
        bearer: str | None = None,
        body: dict[str, Any] | None = None,
        at_most: int = LONGEST_ANSWER,
    ) -> bytes:
        """The body of a successful answer."""
        status, headers, content = self._exchange(method, path, bearer, body, at_most)
        if path == RUN and 300 <= status < 400:
            self._follow(headers.get("location", ""))
            status, headers, content = self._exchange(method, path, bearer, body, at_most)
        self._check(status, headers, content)
        return content

    def _exchange(
        self, method: str, path: str, bearer: str | None, body: dict[str, Any] | None, at_most: int
    ) -> tuple[int, httpx.Headers, bytes]:
        headers = {"Authorization": f"Bearer {bearer}"} if bearer is not None else {}
        response: httpx.Response | None = None
        try:
            with self._client.stream(method, self.base + path, headers=headers, json=body) as response:
                limit = at_most if response.is_success else LONGEST_ANSWER
                content = bytearray()
                for chunk in response.iter_bytes():
                    content += chunk
                    if len(content) > limit:
                        raise JoinProblem(
                            ProblemKind.MANIFEST,
                            _("{url}: {path} is longer than {n} bytes; tell the organizer").format(
                                url=self.base, path=path, n=f"{limit:,}"
                            ),
                        )
                return response.status_code, response.headers, bytes(content)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            if response is not None and isinstance(error, httpx.RemoteProtocolError):  # it has begun as HTTP
                broken = _("{url}: the connection broke off in the middle of an answer; try again")
                raise JoinProblem(ProblemKind.NO_ANSWER, broken.format(url=self.base)) from None
            raise explain(self.base, error, self._proxy) from None

    def _check(self, status: int, headers: httpx.Headers, content: bytes) -> None:
        self.ahead = clock_offset(headers.get("date"), time.time())
        if not 200 <= status < 300:
            raise self._refusal(status, headers, content)
        if self.ahead is not None and abs(self.ahead) > self._tolerance:
            raise JoinProblem(ProblemKind.CLOCK_WRONG, describe_offset(self.ahead, mark("the coordinator's")))

    def _refusal(self, status: int, headers: httpx.Headers, content: bytes) -> JoinProblem:
        pause = _seconds(headers.get("retry-after"))
        if status == httpx.codes.PROXY_AUTHENTICATION_REQUIRED and self._proxy:
            return proxy_problem(self.base, self._proxy, _("it wants a login"))
        try:
            refused = Refused.model_validate_json(content)
        except ValidationError:
            if status in GATEWAY_STATUS:
                reason = f"{self.base}: {_why_away(content, status)}"
                return JoinProblem(ProblemKind.COORDINATOR_AWAY, reason, status=status, retry_after=pause)
            return JoinProblem(
                ProblemKind.NOT_A_COORDINATOR,
                _("{url}: not a Sahaj coordinator, or of another version ({answer}); check the link").format(
                    url=self.base, answer=f"HTTP {status}"
                ),
                status=status,
            )
        message = told(refused) or _("{url}: refused ({reason})").format(url=self.base, reason=refused.error.value)
        if pause and str(int(pause)) not in message:
            message = _("{problem} (try again in {n} s)").format(problem=message, n=f"{pause:.0f}")
        return JoinProblem(ProblemKind[refused.error.name], message, status=status, retry_after=pause)

    def parse(self, kind: type[T], content: bytes) -> T:
        """An answer of this kind.

        Raises:
            JoinProblem: it is of another one.
        """
        try:
            return TypeAdapter(kind).validate_json(content)
        except ValidationError:
            answer = _("a web page") if content.lstrip()[:1] == b"<" else _("an unknown answer")
            raise JoinProblem(
                ProblemKind.NOT_A_COORDINATOR,
                _("{url}: not a Sahaj coordinator, or of another version ({answer}); check the link").format(
                    url=self.base, answer=answer
                ),
            ) from None

    def _follow(self, location: str) -> None:
        """Follow to the same host, as from HTTP to HTTPS, and to no other: a token would go with us."""
        target = urljoin(f"{self.base}{RUN}", location)
        old, new = urlsplit(self.base), urlsplit(target)
        downgraded = old.scheme == "https" and new.scheme != "https"
        if new.hostname != old.hostname or downgraded or not new.path.endswith(RUN):
            raise JoinProblem(
                ProblemKind.NOT_A_COORDINATOR,
                _("{url}: forwards to {other}; give that address instead if you trust it").format(
                    url=self.base, other=one_line(target)
                ),
            )
        self.base = coordinator_url(f"{new.scheme}://{new.netloc}{new.path.removesuffix(RUN)}")


def clock_offset(date: str | None, now: float) -> float | None:
    """Seconds by which the other clock is ahead of ours, from a `Date` header; None if that is no date."""
    try:
        return parsedate_to_datetime(date).timestamp() - now if date else None
    except (ValueError, TypeError):
        return None


def _why_away(content: bytes, status: int) -> str:
    try:
        return one_line(Unavailable.model_validate_json(content).message)
    except ValidationError:
        return _("the coordinator is away ({answer}); try again in some minutes").format(answer=f"HTTP {status}")


def _seconds(retry_after: str | None) -> float:
    asked = float(retry_after) if retry_after and retry_after.isascii() and retry_after.isdigit() else 0.0
    return min(asked, LONGEST_RETRY_AFTER)
