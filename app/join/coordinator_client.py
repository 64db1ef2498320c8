"""The coordinator's HTTP service, seen from a volunteer: each failure becomes one clear line.

Whatever answers at a URL may be broken or hostile: answers are read up to a limit, never followed to
another host, and no header or token appears in a message.
"""

import socket
import ssl
import time
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote, urljoin, urlsplit

import httpx
from pydantic import Base64Bytes, BaseModel, ConfigDict, ValidationError

from app.join.address import coordinator_url, is_loopback
from app.join.problems import (
    REFUSALS,
    ClockWrong,
    CoordinatorAway,
    JoinProblem,
    ManifestProblem,
    NoAnswer,
    NoSuchHost,
    NotACoordinator,
    NotAllowed,
    TlsProblem,
    one_line,
)
from swarm.access.join_messages import JoinAnswer, JoinRequest, Refused
from swarm.clock import describe_offset

PATIENCE = 15.0  # seconds to wait for an answer; the coordinator may have to ask the Hub meanwhile
CONNECT_PATIENCE = 6.0  # seconds
LONGEST_ANSWER = 1 << 20  # bytes of JSON
CLOCK_TOLERANCE = 30.0  # seconds
GATEWAY_STATUS = (500, 502, 503, 504)  # the coordinator has a problem, or a proxy before it finds it away

T = TypeVar("T", bound=BaseModel)


class Access(BaseModel):
    """Who may join."""

    model_config = ConfigDict(frozen=True)
    open: bool = False


class Described(BaseModel):
    """The part of `GET /api/run` that joining needs."""

    model_config = ConfigDict(frozen=True)
    access: Access | None


class Named(BaseModel):
    """The part of `GET /api/run` that every run has."""

    model_config = ConfigDict(frozen=True)
    name: str


class Notebook(BaseModel):
    """What every notebook has."""

    model_config = ConfigDict(frozen=True)
    nbformat: int
    cells: list[dict[str, Any]]


class SignedNotices(BaseModel):
    """The part of `GET /api/notices` that peers use."""

    model_config = ConfigDict(frozen=True)
    signed: Base64Bytes


class Unavailable(BaseModel):
    """What a coordinator says that cannot answer now."""

    model_config = ConfigDict(frozen=True)
    error: str
    message: str


class RunInfo(BaseModel):
    """A run that one can join."""

    model_config = ConfigDict(frozen=True)
    access: Access


class Door:
    """Speaks to one coordinator. `base` is its URL; it changes if the coordinator has moved to HTTPS.

    Raises:
        AddressProblem: the URL is none.
    """

    def __init__(self, url: str, *, patience: float = PATIENCE):
        self.base = coordinator_url(url)
        self._client = httpx.Client(
            timeout=httpx.Timeout(patience, connect=min(patience, CONNECT_PATIENCE)),
            trust_env=not is_loopback(self.base),  # a proxy would look for loopback on its own machine
            headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "sahaj"},
        )

    def __enter__(self) -> "Door":
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.close()

    def describe(self) -> RunInfo:
        """Ask what run this is.

        Raises:
            JoinProblem: one of its kinds.
        """
        about = self._parse(Described, self._about())
        if about.access is None:
            raise NotAllowed(
                f"{self.base}: this run gives no passes; ask the organizer for a peer's address, and use `sahaj train`"
            )
        return RunInfo(access=about.access)

    def run_name(self) -> str:
        """Ask what the run is called, whoever may join it.

        Raises:
            JoinProblem: one of its kinds.
        """
        return one_line(self._parse(Named, self._about()).name)

    def _about(self) -> bytes:
        status, headers, content = self._exchange("GET", "/api/run")
        if 300 <= status < 400:
            self._move(headers.get("location", ""))
            status, headers, content = self._exchange("GET", "/api/run")
        self._check(status, headers, content)
        return content

    def join(self, request: JoinRequest, token: str | None) -> JoinAnswer:
        """Ask for a pass, or for a newer one.

        Raises:
            JoinProblem: one of its kinds.
        """
        content = self.ask("POST", "/api/join", bearer=token, body=request.model_dump(mode="json"))
        return self._parse(JoinAnswer, content)

    def notebook(self) -> bytes:
        """The run's notebook, which installs the program that its coordinator has.

        Raises:
            JoinProblem: one of its kinds.
        """
        self._about()  # follows the coordinator to HTTPS
        content = self.ask("GET", "/join.ipynb")
        self._parse(Notebook, content)
        return content

    def notices(self) -> bytes:
        """What the organizer decided, signed.

        Raises:
            JoinProblem: one of its kinds.
        """
        return self._parse(SignedNotices, self.ask("GET", "/api/notices")).signed

    def tokenizer_file(self, name: str, size: int) -> bytes:
        """Download a file of so many bytes.

        Raises:
            JoinProblem: one of its kinds; more bytes than announced are a `ManifestProblem`.
        """
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
        """The body of a successful answer.

        Raises:
            JoinProblem: one of its kinds.
        """
        status, headers, content = self._exchange(method, path, bearer=bearer, body=body, at_most=at_most)
        self._check(status, headers, content)
        return content

    def _exchange(
        self,
        method: str,
        path: str,
        *,
        bearer: str | None = None,
        body: dict[str, Any] | None = None,
        at_most: int = LONGEST_ANSWER,
    ) -> tuple[int, httpx.Headers, bytes]:
        headers = {"Authorization": f"Bearer {bearer}"} if bearer is not None else {}
        try:
            with self._client.stream(method, self.base + path, headers=headers, json=body) as response:
                limit = at_most if response.is_success else LONGEST_ANSWER
                content = bytearray()
                for chunk in response.iter_bytes():
                    content += chunk
                    if len(content) > limit:
                        raise ManifestProblem(
                            f"{self.base}: {path} is longer than the {limit:,} bytes it may have; tell the organizer"
                        )
                return response.status_code, response.headers, bytes(content)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise _explain(self.base, error) from None

    def _check(self, status: int, headers: httpx.Headers, content: bytes) -> None:
        if not 200 <= status < 300:
            raise self._refusal(status, headers, content)
        offset = clock_offset(headers.get("date"), time.time())
        if offset is not None and abs(offset) > CLOCK_TOLERANCE:
            raise ClockWrong(describe_offset(offset, "the coordinator's"))

    def _refusal(self, status: int, headers: httpx.Headers, content: bytes) -> JoinProblem:
        pause = _seconds(headers.get("retry-after"))
        try:
            refused = Refused.model_validate_json(content)
        except ValidationError:
            if status in GATEWAY_STATUS:
                return CoordinatorAway(f"{self.base}: {_why_away(content, status)}", status=status, retry_after=pause)
            return NotACoordinator(
                f"{self.base}: not a Sahaj coordinator, or of another version (HTTP {status}); check the link",
                status=status,
            )
        message = one_line(refused.message) or f"{self.base}: refused ({refused.error.value})"
        if pause and str(int(pause)) not in message:
            message += f" (try again in {pause:.0f} s)"
        return REFUSALS[refused.error](message, status=status, retry_after=pause)

    def _parse(self, kind: type[T], content: bytes) -> T:
        try:
            return kind.model_validate_json(content)
        except ValidationError:
            raise NotACoordinator(
                f"{self.base}: not a Sahaj coordinator, or of another version "
                f"({'a web page' if _is_page(content) else 'an unknown answer'}); check the link"
            ) from None

    def _move(self, location: str) -> None:
        """Follow to the same host, as from HTTP to HTTPS, and to no other: a token would go with us."""
        target = urljoin(f"{self.base}/api/run", location)
        old, new = urlsplit(self.base), urlsplit(target)
        downgraded = old.scheme == "https" and new.scheme != "https"
        if new.hostname != old.hostname or downgraded or not new.path.endswith("/api/run"):
            raise NotACoordinator(
                f"{self.base}: forwards to {one_line(target)}; give that address instead if you trust it"
            )
        self.base = coordinator_url(f"{new.scheme}://{new.netloc}{new.path.removesuffix('/api/run')}")


def clock_offset(date: str | None, now: float) -> float | None:
    """Seconds by which the other clock is ahead of ours, from a `Date` header; None if that is no date."""
    try:
        return parsedate_to_datetime(date).timestamp() - now if date else None
    except (ValueError, TypeError):
        return None


def _explain(base: str, error: Exception) -> JoinProblem:
    """Which problem of the network this is: the reason lies in what caused httpx's error."""
    causes = list(_causes(error))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        host = urlsplit(base).hostname
        return NoSuchHost(f"{host}: no such host; check the link for typing mistakes, and that you are online")
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return CoordinatorAway(
            f"{base}: nobody listens there; check the port, or try again when the coordinator is running"
        )
    tls = next((cause for cause in causes if isinstance(cause, ssl.SSLError)), None)
    if tls is not None:
        return TlsProblem(f"{base}: {_explain_tls(tls, base)}")
    if isinstance(error, httpx.TimeoutException):
        return NoAnswer(f"{base}: no answer in time; check the link, your connection and firewall, or try again later")
    if isinstance(error, (httpx.RemoteProtocolError, httpx.DecodingError)):
        return NotACoordinator(f"{base}: not a Sahaj coordinator, it does not speak HTTP as we do; check the link")
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError)):
        return NoSuchHost(f"{base}: not a URL that can be asked; check the link for typing mistakes")
    reason = one_line(str(causes[-1])) or type(error).__name__
    return CoordinatorAway(f"{base}: the coordinator cannot be reached ({reason}); try again later")


def _explain_tls(error: ssl.SSLError, base: str) -> str:
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not valid ({one_line(error.verify_message)}); "
            "check the link and this machine's clock, or tell the organizer"
        )
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return f"does not speak HTTPS; try {base.replace('https://', 'http://', 1)}"
    return f"no encrypted connection could be made ({one_line(reason) or 'TLS'}); check the link"


def _why_away(content: bytes, status: int) -> str:
    try:
        return one_line(Unavailable.model_validate_json(content).message)
    except ValidationError:
        return f"the coordinator is away (HTTP {status}); try again in some minutes"


def _causes(error: BaseException | None) -> Any:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _seconds(retry_after: str | None) -> float:
    return float(retry_after) if retry_after and retry_after.isascii() and retry_after.isdigit() else 0.0


def _is_page(content: bytes) -> bool:
    return content.lstrip()[:1] == b"<"
