"""What can go wrong on the way into a run, as one error class with a kind; errors of the HTTP library become such."""

import contextlib
import errno
import os
import shlex
import socket
import ssl
from collections.abc import Iterator
from enum import IntEnum, unique
from urllib.parse import urlsplit

import httpx

from app.installation import command
from swarm.errors import NotJoined, SahajError, in_a_line
from swarm.hosts import is_this_machine
from swarm.language import _
from trainer.console.terminal_text import printable

LONGEST_LINE = 400  # characters of a message from outside


@unique
class ProblemKind(IntEnum):
    """A kind of problem; the value is the command's exit status.

    Kinds that the coordinator reports have the names of `swarm.access.join_messages.Refusal`.
    """

    BAD_URL = 20
    NO_SUCH_HOST = 21
    COORDINATOR_AWAY = 22  # nothing listens at its address
    NO_ANSWER = 23  # in time
    TLS = 24  # no encrypted connection
    NOT_A_COORDINATOR = 25  # something else answers, or another version
    TOKEN_MISSING = 26
    TOKEN_REJECTED = 27  # the Hub does not know it
    TOKEN_TOO_STRONG = 28  # it may change things on the Hub; joining needs no permission
    NOT_ALLOWED = 29  # the run's access rule does not name this person
    BANNED = 30
    WRONG_VERSION = 31
    WRONG_FINGERPRINT = 32  # this peer would train something else than the others
    PAUSED = 33  # newcomers are asked to come back later
    FINISHED = 34
    TOO_MANY = 35  # attempts
    HUB_AWAY = 36  # the Hugging Face Hub does not answer
    CLOCK_WRONG = 37  # by so much that passes would look expired
    MANIFEST = 38  # what the coordinator hands out cannot be used, or is not safe to use
    MACHINE_TOO_SMALL = 39
    BAD_NAME = 40
    ADMIN_KEY = 41  # missing, or not this run's
    MALFORMED = 42  # a command that the coordinator does not take
    NO_EXPERTS = 43  # to host: the run has none
    NOT_REACHABLE = 44  # nobody can connect to this machine
    PROXY = 45  # the proxy that the environment names does not let us through


AWAY = frozenset(
    {
        ProblemKind.COORDINATOR_AWAY,
        ProblemKind.NO_ANSWER,
        ProblemKind.NO_SUCH_HOST,
        ProblemKind.TLS,
        ProblemKind.PROXY,
    }
)
PASSING = AWAY | {ProblemKind.PAUSED, ProblemKind.HUB_AWAY, ProblemKind.TOO_MANY, ProblemKind.CLOCK_WRONG}
EXAMINED = AWAY | {ProblemKind.NOT_A_COORDINATOR, ProblemKind.CLOCK_WRONG}  # `sahaj doctor` says more about these
NO_ROUTE = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL})


class JoinProblem(SahajError):
    """A problem of some kind; `status` is the HTTP status behind it, `retry_after` seconds to wait before a retry."""

    def __init__(self, kind: ProblemKind, message: str, *, status: int | None = None, retry_after: float = 0.0):
        super().__init__(message)
        self.kind, self.exit_status = kind, kind.value
        self.status, self.retry_after = status, retry_after


@contextlib.contextmanager
def referring_to_doctor(link: str) -> Iterator[None]:
    """End the message of an error in this block with the command that says more, if it does."""
    try:
        yield
    except SahajError as error:
        if isinstance(error, NotJoined) or (isinstance(error, JoinProblem) and error.kind in EXAMINED):
            line = f"{shlex.quote(command())} doctor {shlex.quote(link)}"
            error.args = (_("{problem}; `{command}` says more").format(problem=error, command=line),)
        raise


def one_line(text: str) -> str:
    """Text from outside, safe to print: one line of limited length, without control characters."""
    line = " ".join(printable(text[: 4 * LONGEST_LINE]).split())
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"


def explain(url: str, error: Exception, proxy: str = "") -> JoinProblem:
    """The problem behind `error` at `url`: the reason is in the chain of causes of httpx's error.

    Args:
        proxy: the proxy on the way there, as people are told of it; empty if there is none.
    """
    causes = list(_causes(error))
    if proxy and isinstance(error, (httpx.ProxyError, httpx.ConnectError, httpx.ConnectTimeout)):
        reason = _explain_proxy(error, causes)
        if reason:
            return proxy_problem(url, proxy, reason)
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return JoinProblem(ProblemKind.NO_SUCH_HOST, f"{urlsplit(url).hostname}: {_explain_name(cause)}")
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            return JoinProblem(ProblemKind.TLS, f"{url}: {_explain_tls(cause, url)}")
    kind, reason = _explain_http(url, error, causes)
    return JoinProblem(kind, f"{url}: {reason}")


def certificates_problem(url: str, error: OSError) -> JoinProblem:
    """The certificates to check servers by cannot be read, as from a file that an old environment names."""
    named = [f"{name}={os.environ[name]}" for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if name in os.environ]
    return JoinProblem(
        ProblemKind.TLS,
        _("{url}: certificates cannot be read ({reason}); correct or unset {variables}").format(
            url=url, reason=in_a_line(error.strerror or error), variables=", ".join(named) or "SSL_CERT_FILE"
        ),
    )


def proxy_problem(url: str, proxy: str, reason: str) -> JoinProblem:
    """The proxy on the way to `url` is in the way."""
    host = urlsplit(url).hostname
    return JoinProblem(
        ProblemKind.PROXY,
        _(
            "{url}: the proxy {proxy} does not let this program through ({reason}); correct or unset that variable, or "
            "name {host} in NO_PROXY if there is a way without it"
        ).format(url=url, proxy=proxy, reason=reason, host=host),
    )


def _explain_proxy(error: Exception, causes: list[BaseException]) -> str:
    """Why the proxy was of no use; empty if it was, and what is behind it was not."""
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return ""
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return _("nothing is listening there")
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return _("no such host")
    if isinstance(error, httpx.TimeoutException):
        return _("no answer in time")
    return one_line(str(error)) or type(error).__name__


def _explain_name(error: socket.gaierror) -> str:
    if error.errno == socket.EAI_AGAIN:
        return _("the name servers of this machine do not answer; check that you are online, and its DNS settings")
    return _("no such host; check the link for typing mistakes, and that you are online")


def _explain_http(url: str, error: Exception, causes: list[BaseException]) -> tuple[ProblemKind, str]:
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        return ProblemKind.COORDINATOR_AWAY, _explain_refusal(url)
    if any(isinstance(cause, OSError) and cause.errno in NO_ROUTE for cause in causes):
        reason = _(
            "no network route to it from this machine; check that you are online, and check the VPN if you use one"
        )
        return ProblemKind.COORDINATOR_AWAY, reason
    if isinstance(error, httpx.TimeoutException):
        reason = _("no answer in time; check the link, your connection and firewall, or try again later")
        return ProblemKind.NO_ANSWER, reason
    if isinstance(error, (httpx.RemoteProtocolError, httpx.DecodingError)):
        reason = _("not a Sahaj coordinator: its answer cannot be read as HTTP; check the link")
        return ProblemKind.NOT_A_COORDINATOR, reason
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError)):
        return ProblemKind.NO_SUCH_HOST, _("not a URL that can be asked; check the link for typing mistakes")
    last = one_line(str(causes[-1])) or type(error).__name__
    reason = _("the coordinator cannot be reached ({reason}); try again later").format(reason=last)
    return ProblemKind.COORDINATOR_AWAY, reason


def _explain_refusal(url: str) -> str:
    parts = urlsplit(url)
    if parts.port is None:
        reason = _(
            "nothing is listening on port {port}, the default for a link that names none; check the link, or try again "
            "when the coordinator is running"
        ).format(port=443 if parts.scheme == "https" else 80)
    else:
        reason = _("nothing is listening there; check the port, or try again when the coordinator is running")
    if is_this_machine(parts.hostname or ""):
        told = _("{reason}; the link leads to this machine itself, so if the coordinator is elsewhere, ask for another")
        return told.format(reason=reason)
    return reason


def _explain_tls(error: ssl.SSLError, url: str) -> str:
    reason = error.reason or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _(
            "its certificate is not valid ({reason}); check the link and this machine's clock, or tell the organizer"
        ).format(reason=one_line(error.verify_message))
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return _(
            "does not use HTTPS; ask the organizer for an https link, or try {url} if you trust this network (a token "
            "could be read on the way)"
        ).format(url=url.replace("https://", "http://", 1))
    return _("no encrypted connection could be made ({reason}); check the link").format(
        reason=one_line(reason) or "TLS"
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
