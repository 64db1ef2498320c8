"""The HTTP server: uvicorn in a thread of the coordinator's process."""

import contextlib
import logging
import resource
import socket
import threading

import uvicorn
from fastapi import FastAPI

from coordinator.http.connections import connection_class
from swarm.errors import SwarmError

logger = logging.getLogger(__name__)

MOST_CONNECTIONS = 512  # at most, so that other parts of the coordinator can open files
BACKLOG = 128  # connections that the system holds until they are accepted
OPEN_FILES = 4096  # of this process, if the system allows it
IDLE = 5  # seconds after which an idle connection is closed
GRACE = 2  # seconds for requests under way when the server stops
START_PATIENCE = 10.0  # seconds
WILDCARDS = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # the address by which this machine reaches itself


class Server:
    """Serves an app from its construction to `stop`. It handles no signals.

    Start it after hivemind has forked its processes, which would keep the port open.
    """

    def __init__(self, app: FastAPI, host: str, port: int):
        """Listen on `host` and `port` (0: a free one).

        Raises:
            SwarmError: the port is in use, or the host is no address of this machine.
        """
        self._socket = _listen(host, port)
        self.host, self.port = host, int(self._socket.getsockname()[1])
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http=connection_class(most_connections()),  # h11 bounds the size of headers
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
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def stop(self) -> None:
        """Finish requests under way, then close the port. Harmless when repeated."""
        self._server.should_exit = True
        self._thread.join(GRACE + START_PATIENCE)
        self._socket.close()

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        except Exception as error:
            logger.error("the HTTP service has ended (%s)", type(error).__name__)

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
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < OPEN_FILES:
        wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return MOST_CONNECTIONS if soft < 0 else min(MOST_CONNECTIONS, soft // 2)


def _listen(host: str, port: int) -> socket.socket:
    way_out = "set access.host and access.port in the run file"
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
        raise SwarmError(f"{host}:{port}: HTTP cannot be served here ({error.strerror}); {way_out}") from None
    return listening
