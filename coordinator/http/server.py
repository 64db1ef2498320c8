"""The HTTP server: uvicorn in a thread of the coordinator's process, with limits on connections.

How long each connection may take, and which are closed when there are too many. uvicorn counts idle connections, too,
and refuses requests when there are too many. It waits for ever for the rest of a request and for a client that does not
read, so one address could lock out everybody.
"""

import asyncio
import errno
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterable

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

from averaging.transport.limits import allow_open_files
from swarm.errors import SwarmError
from swarm.rate_limit import address_key

logger = logging.getLogger(__name__)

MOST_CONNECTIONS = 512  # at most, so that other parts of the coordinator can open files
BACKLOG = 128  # connections that the system holds until they are accepted
OPEN_FILES = 4096  # of this process, if the system allows it
IDLE = 5  # seconds after which an idle connection is closed
GRACE = 2  # seconds for requests under way when the server stops
START_PATIENCE = 10.0  # seconds
WILDCARDS = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # the address by which this machine reaches itself

WAYS_OUT = {
    errno.EACCES: "as root: sysctl -w net.ipv4.ip_unprivileged_port_start={port}; or {otherwise}",
    errno.EADDRINUSE: "end the program that has the port (ss -tlnp names it), or {otherwise}",
}

HEAD_PATIENCE = 10.0  # seconds for the whole head of a request
EXCHANGE_PATIENCE = 120.0  # seconds for request and answer, until the client has read the last byte


class Server:
    """Serves an app from its construction to `stop`. It handles no signals.

    Start it after hivemind has forked its processes, which would keep the port open.
    """

    def __init__(
        self,
        app: Starlette,
        host: str,
        port: int,
        *,
        tls: Callable[[], ssl.SSLContext] | None = None,
        setting: str = "access.host and access.port",
        ended: Callable[[str], object] = logger.error,
    ):
        """Listen on `host` and `port` (0: a free one).

        Args:
            tls: gives what a new connection is encrypted with; absent: plain HTTP.
            setting: of the run file, by which the port is chosen.
            ended: is told in one line, in the server's thread, if the service ends without `stop`.

        Raises:
            SwarmError: the port is in use or not permitted, or the host is no address of this machine.
        """
        self._scheme, self._ended = "https" if tls else "http", ended
        self._socket = _listen(host, port, f"set {setting} in the run file")
        self.host, self.port = host, int(self._socket.getsockname()[1])
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http=connection_class(most_connections(), tls),  # h11 bounds the size of headers
            ws="none",
            lifespan="off",
            log_config=None,
            log_level=logging.ERROR,
            access_log=False,  # queries and addresses are private
            server_header=False,
            date_header=False,  # `RequestLimits` sends the swarm's time
            proxy_headers=True,  # of a reverse proxy on this machine: limits are for its clients
            forwarded_allow_ips="127.0.0.1",
            limit_concurrency=MOST_CONNECTIONS + 1,  # of requests; connections are limited to fewer
            backlog=BACKLOG,
            timeout_keep_alive=IDLE,
            timeout_graceful_shutdown=GRACE,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)
        self._thread.start()
        self._await_start()

    @property
    def url(self) -> str:
        """The URL of the server for this machine."""
        host = WILDCARDS.get(self.host, self.host)
        return f"{self._scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    def stop(self) -> None:
        """Finish requests under way, then close the port. Harmless when repeated."""
        self._server.should_exit = True
        self._thread.join(GRACE + START_PATIENCE)
        self._socket.close()

    def _serve(self) -> None:
        reason = ""
        try:
            self._server.run(sockets=[self._socket])
        except BaseException as error:  # a SystemExit ends a thread without a word
            reason = f" ({type(error).__name__})"
        if not self._server.should_exit:
            self._ended(f"the HTTP service at port {self.port} has ended{reason}")

    def _await_start(self) -> None:
        waited = threading.Event()
        for _ in range(round(START_PATIENCE / 0.01)):
            if self._server.started:
                return
            if not self._thread.is_alive():
                break
            waited.wait(0.01)
        self.stop()
        raise SwarmError(f"port {self.port}: the HTTP service did not start; see what the coordinator printed")


def most_connections() -> int:
    """The limit on connections: half of the files that this process may open, after raising that limit."""
    return min(MOST_CONNECTIONS, allow_open_files(OPEN_FILES) // 2)


def _listen(host: str, port: int, way_out: str) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise SwarmError(f"{host}: not an address to serve HTTP at; {way_out}") from None
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of the last run may linger
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        way_out = WAYS_OUT.get(error.errno or 0, "{otherwise}").format(port=port, otherwise=way_out)
        shown = f"[{host}]" if ":" in host else host
        raise SwarmError(f"{shown}:{port}: HTTP cannot be served here ({error.strerror}); {way_out}") from None
    return listening


def to_close(connections: Iterable["Connection"]) -> list["Connection"]:
    """The connections to close: the oldest quarter of those that wait, of the address that has most of them.

    So no address locks out another, and among many clients behind one router or proxy idle connections go first, new
    requests last. One that is being answered is not closed.
    """
    waiting: dict[str, list[Connection]] = {}
    for one in sorted((one for one in connections if one.waits), key=lambda one: one.since):
        waiting.setdefault(one.address, []).append(one)
    most = max(waiting.values(), key=lambda ones: (len(ones), -ones[0].since))
    return most[: len(most) // 4 + 1]


class Connection(H11Protocol):
    """uvicorn's connection with deadlines; of more than `most`, some are closed.

    TLS begins here, not in the event loop, which would neither count nor limit connections until their handshake ends.
    """

    most: int
    tls: Callable[[], ssl.SSLContext] | None
    address: str  # key of the client's; see `address_key`
    since: float  # when it was accepted, or when its last response was complete
    _deadline: asyncio.TimerHandle | None = None
    _plain: asyncio.Transport  # below TLS, if there is any
    _handshake: asyncio.Task[None] | None = None
    _early: bytes | None = None  # what has arrived in the moment between the handshake and our turn

    @property
    def waits(self) -> bool:
        """Whether it waits for its client: for the rest of a request, or until a response is read."""
        return not self._is_under_way() or self.cycle.more_body or self._is_unread()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See upstream."""
        super().connection_made(transport)
        self._plain = transport
        self.address = address_key(self.client[0] if self.client else "")
        self._begin()
        if len(self.connections) > self.most:  # this one waits, too
            for one in to_close(one for one in self.connections if isinstance(one, Connection)):
                one.drop()
        if self.tls is not None:
            transport.pause_reading()  # what arrives is for the handshake
            self._early = b""
            self._handshake = self.loop.create_task(self._secure(self.tls()))

    def data_received(self, data: bytes) -> None:
        """See upstream."""
        if self._early is not None:
            self._early += data
        else:
            super().data_received(data)

    async def _secure(self, tls: ssl.SSLContext) -> None:
        if self._plain.is_closing():
            return
        try:
            secured = await self.loop.start_tls(
                self._plain, self, tls, server_side=True, ssl_handshake_timeout=HEAD_PATIENCE
            )
        except OSError:  # no TLS, none that we speak, or gone
            self.connection_lost(None)
            return
        if secured is None:  # gone in the moment in which the handshake ended
            return
        self.transport, self.flow, self.scheme = secured, FlowControl(secured), "https"
        early, self._early = self._early, None
        if early:
            self.data_received(early)

    def on_response_complete(self) -> None:
        """See upstream."""
        self._begin()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """See upstream."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close it at once, without waiting for the client to read."""
        self.connections.discard(self)
        self.transport.abort()

    def _begin(self) -> None:
        """Wait for a request; other bytes do not extend the time."""
        self.since = self.loop.time()
        self._check_in(HEAD_PATIENCE)

    def _check_deadline(self) -> None:
        patience = EXCHANGE_PATIENCE if self._is_under_way() or self._is_unread() else HEAD_PATIENCE
        left = self.since + patience - self.loop.time()
        if left > 0:
            self._check_in(left)
        else:
            self.drop()

    def _check_in(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self._check_deadline)

    def _is_under_way(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _is_unread(self) -> bool:
        return self.transport.get_write_buffer_size() + self._plain.get_write_buffer_size() > 0


def connection_class(most: int, tls: Callable[[], ssl.SSLContext] | None = None) -> type[Connection]:
    """The protocol class of a server that holds at most so many connections."""
    return type("Connection", (Connection,), {"most": most, "tls": staticmethod(tls) if tls else None})
