"""Serves an app over HTTPS beside plain HTTP, and keeps its certificate fresh while it does."""

import contextlib
import datetime
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from coordinator.http.server import Server
from coordinator.https.authority import CertificateError, check_installed, obtain
from coordinator.https.certificate import Certificate
from coordinator.state_folder import CERTIFICATES
from swarm import clock
from swarm.errors import SahajError, in_a_line
from swarm.files import write_file
from swarm.logging.logs import log_failure
from swarm.run_file import RunFile

logger = logging.getLogger(__name__)

SOON = 7 * 86400.0  # seconds before its end when a certificate of the organizer's own should have been replaced
LOOK_EVERY = 3600.0  # seconds between two looks at the certificate; an authority counts failures by the hour
CHALLENGES = "/.well-known/acme-challenge/"
ANYWHERE = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"


@contextlib.contextmanager
def serve_https(
    app: Starlette,
    run: RunFile,
    state_folder: Path,
    say: Callable[[str], None],
    ended: Callable[[str], object] = logger.error,
) -> Iterator[None]:
    """Serve the app over HTTPS while the block runs, if the run file asks for it.

    Args:
        ended: see `Server`.

    Raises:
        SahajError: a port is taken or not permitted, or there is no certificate.
    """
    settings = run.access.tls
    if settings is None:
        yield
        return
    with contextlib.ExitStack() as services:
        answers: dict[str, str] = {}
        keeper = CertificateKeeper(run, state_folder / CERTIFICATES, answers)
        if keeper.obtains:
            check_installed()
            front = redirecting(run.access.url or "", answers)
            setting = "access.tls.http_port"
            services.callback(Server(front, ANYWHERE, settings.http_port, setting=setting, ended=ended).stop)
        try:
            keeper.refresh()
        except SahajError as error:
            if clock.now() >= keeper.certificate.expires:
                raise
            say(keeper.describe(error))
        tls = keeper.certificate.context
        services.callback(Server(app, ANYWHERE, settings.port, tls=tls, setting="access.tls.port", ended=ended).stop)
        closing = threading.Event()
        threading.Thread(target=keep_fresh, args=(keeper, closing, say), name="certificate", daemon=True).start()
        services.callback(closing.set)
        yield


class CertificateKeeper:
    """Knows where the certificate of a run comes from."""

    def __init__(self, run: RunFile, folder: Path, answers: dict[str, str]):
        """`folder` is for what is obtained; `answers` are served at port 80, by path."""
        settings = run.access.tls
        assert settings is not None
        self.certificate = Certificate()
        self._obtained = b""  # what could not be written yet: an authority gives only a few in a week
        self._host = urlsplit(run.access.url or "").hostname or ""
        self._directory, self._account, self._answers = settings.directory, folder / "account.key", answers
        self.obtains = settings.certificate is None
        if settings.certificate is not None and settings.key is not None:
            self._files = run.resolve(settings.certificate), run.resolve(settings.key)
        else:
            self._files = (folder / "certificate.pem",) * 2

    def refresh(self) -> None:
        """Load the files if they are there, and obtain a certificate if that is due.

        Raises:
            SahajError: there is none, or none that is valid for long; one that was loaded stays in use.
        """
        if not self.obtains:
            self.certificate.load(*self._files, self._host)
            if clock.now() >= max(self.certificate.renew_at, self.certificate.expires - SOON):
                until = datetime.datetime.fromtimestamp(self.certificate.expires, datetime.timezone.utc).date()
                raise CertificateError(f"{self._files[0]}: valid until {until}; renew it")
            return
        if self._files[0].exists() and not self.certificate.expires:
            with contextlib.suppress(CertificateError):  # damaged, or of an earlier name: another one is obtained
                self.certificate.load(*self._files, self._host)
        if clock.now() >= self.certificate.renew_at:
            self.obtain()

    def obtain(self) -> None:
        """Obtain a certificate, and use it for new connections.

        Raises:
            SahajError: none can be had now, or written.
        """
        self._obtained = self._obtained or obtain(self._host, self._directory, self._account, self._answers)
        write_file(self._files[0], self._obtained, mode=0o600)
        self._obtained = b""
        self.certificate.load(*self._files, self._host)

    def describe(self, error: object) -> str:
        """One line on a failure that leaves the certificate in use."""
        days = max(self.certificate.expires - clock.now(), 0) / 86400
        return f"problem: {error} (the certificate in use is valid for {days:.0f} days; it is tried again every hour)"


def keep_fresh(keeper: CertificateKeeper, stop: threading.Event, say: Callable[[str], None]) -> None:
    """Refresh the certificate until `stop` is set; connections are not interrupted."""
    reported = ""
    while not stop.wait(LOOK_EVERY):
        try:
            keeper.refresh()
            reported = ""
        except SahajError as error:
            if str(error) != reported:
                reported = str(error)
                say(keeper.describe(reported))
        except Exception as error:
            what = f"the certificate could not be looked at ({type(error).__name__}: {in_a_line(error)})"
            if what != reported:
                reported = what
                log_failure(error, what)
                say(keeper.describe(f"{what}; see the log and report it"))


def redirecting(url: str, answers: Mapping[str, str]) -> Starlette:
    """What is served at port 80: answers to the authority, and the way to `url` for everybody else."""

    async def answer(request: Request) -> Response:
        if request.url.path.startswith(CHALLENGES):
            found = answers.get(request.url.path)
            return PlainTextResponse(found or "", 200 if found else 404)
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"{url.rstrip('/')}{request.url.path}{query}", 308)

    return Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "HEAD"])])
