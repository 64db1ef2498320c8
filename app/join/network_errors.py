"""Turns an error of the HTTP library into the problem that a person can act on."""

import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx

from app.join.problems import JoinProblem, ProblemKind, one_line


def explain(url: str, error: Exception) -> JoinProblem:
    """The problem behind `error` at `url`: the reason is in the chain of causes of httpx's error."""
    causes = list(_causes(error))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        host = urlsplit(url).hostname
        return JoinProblem(
            ProblemKind.NO_SUCH_HOST,
            f"{host}: no such host; check the link for typing mistakes, and that you are online",
        )
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            return JoinProblem(ProblemKind.TLS, f"{url}: {_explain_tls(cause, url)}")
    kind, reason = _explain_http(error, causes)
    return JoinProblem(kind, f"{url}: {reason}")


def _explain_http(error: Exception, causes: list[BaseException]) -> tuple[ProblemKind, str]:
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        reason = "nobody listens there; check the port, or try again when the coordinator is running"
        return ProblemKind.COORDINATOR_AWAY, reason
    if isinstance(error, httpx.TimeoutException):
        reason = "no answer in time; check the link, your connection and firewall, or try again later"
        return ProblemKind.NO_ANSWER, reason
    if isinstance(error, (httpx.RemoteProtocolError, httpx.DecodingError)):
        reason = "not a Sahaj coordinator: its answer cannot be read as HTTP; check the link"
        return ProblemKind.NOT_A_COORDINATOR, reason
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError)):
        return ProblemKind.NO_SUCH_HOST, "not a URL that can be asked; check the link for typing mistakes"
    last = one_line(str(causes[-1])) or type(error).__name__
    return ProblemKind.COORDINATOR_AWAY, f"the coordinator cannot be reached ({last}); try again later"


def _explain_tls(error: ssl.SSLError, url: str) -> str:
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not valid ({one_line(error.verify_message)}); "
            "check the link and this machine's clock, or tell the organizer"
        )
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return f"does not speak HTTPS; try {url.replace('https://', 'http://', 1)}"
    return f"no encrypted connection could be made ({one_line(reason) or 'TLS'}); check the link"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
