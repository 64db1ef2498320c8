"""What is observed of the way from this machine to a coordinator and to peers."""

import contextlib
import os
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

import httpx

from app.doctor.background import outcome_or, start
from app.join.coordinator_client import CoordinatorClient, RunDescription, clock_offset
from app.join.problems import JoinProblem, ProblemKind, explain
from app.join.proxy import Proxy, proxy_for

HOSTS = ("ip4", "ip6", "dns", "dns4", "dns6")  # kinds of host in a multiaddr
TRIES, TRY = 3, 0.7  # datagrams that may be lost, and seconds to wait for an answer to each
CLOCK_PATIENCE = 3.0  # seconds for the clock behind a certificate that is not valid
SMALLEST_INITIAL = 1200  # bytes; QUIC answers no shorter ones
NO_VERSION = bytes.fromhex("1a2a3a4a")  # of QUIC, kept free so that a server names those that it knows (RFC 9000, 15)


@dataclass(frozen=True)
class LinkSeen:
    """What came of asking for a run at its link, which may have led on to HTTPS."""

    url: str
    addresses: list[str] | JoinProblem  # of the host
    run: RunDescription | JoinProblem
    ahead: float | None  # seconds by which the coordinator's clock is ahead of ours
    proxy: Proxy | None = None


@dataclass(frozen=True)
class PeerAddress:
    """One libp2p address that a run's peer announces."""

    address: str
    peer_id: str
    host: str
    port: int


def look_at_link(url: str, until: float) -> LinkSeen:
    """Look its host up, and ask for the run as joining does; `until` a time of the monotonic clock."""
    patience = max(0.1, until - time.monotonic())
    names = start(lambda: look_up(url))
    asked = start(lambda: ask_for_run(url, patience))
    addresses = outcome_or(names, until, explain(url, socket.gaierror(socket.EAI_AGAIN, "")))
    run, ahead, base = outcome_or(asked, until, (explain(url, httpx.ReadTimeout("")), None, url))
    return LinkSeen(base, addresses, run, ahead, proxy_for(url))


def look_up(url: str) -> list[str] | JoinProblem:
    """The addresses of the host in a URL."""
    try:
        found = socket.getaddrinfo(urlsplit(url).hostname, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return explain(url, error)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def ask_for_run(url: str, patience: float) -> tuple[RunDescription | JoinProblem, float | None, str]:
    """What the run is, by how many seconds the coordinator's clock is ahead of ours, and the URL in the end."""
    until = time.monotonic() + patience
    try:
        with CoordinatorClient(url, patience=patience, tolerance=float("inf")) as client:
            try:
                return client.run(), client.ahead, client.base
            except JoinProblem as problem:
                is_tls = problem.kind is ProblemKind.TLS
                left = until - time.monotonic()
                ahead = _clock_behind_bad_certificate(client.base, left / 2) if is_tls else client.ahead
                return problem, ahead, client.base
    except JoinProblem as problem:
        return problem, None, url


def _clock_behind_bad_certificate(url: str, patience: float) -> float | None:
    """The offset of the clock where no certificate is valid, of which a wrong clock is a usual reason.

    Nothing secret is sent, and nothing else of the answer is used.
    """
    try:
        headers = httpx.head(f"{url}/api/run", verify=False, timeout=max(0.1, min(patience, CLOCK_PATIENCE))).headers
    except (httpx.HTTPError, httpx.InvalidURL):
        return None
    return clock_offset(headers.get("date"), time.time())


def peer_address(address: str) -> PeerAddress | None:
    """Host and port to connect to for a multiaddr; None if it is not reached by TCP. A relay's is the relay's own."""
    parts = address.split("/")
    if len(parts) < 7 or parts[1] not in HOSTS or parts[3] != "tcp":
        return None
    if not parts[4].isdigit() or not 0 < int(parts[4]) < 65536:
        return None
    return PeerAddress(address, address.rpartition("/p2p/")[2], parts[2], int(parts[4]))


def knock(addresses: Iterable[PeerAddress], until: float) -> dict[PeerAddress, Exception | None]:
    """Connect to each by TCP, all at once; what stands in the way of those that do not answer."""
    calls = {one: start(partial(_connect, one, until)) for one in addresses}
    return {one: outcome_or(call, until, TimeoutError()) for one, call in calls.items()}


def _connect(one: PeerAddress, until: float) -> Exception | None:
    try:
        with socket.create_connection((one.host, one.port), timeout=max(0.1, until - time.monotonic())):
            return None
    except (OSError, UnicodeError) as error:  # the latter for an impossible host name
        return error


def answers_by_udp(addresses: Iterable[PeerAddress], until: float) -> bool:
    """Whether one of these peers answers QUIC on the UDP port with the number of its TCP port."""
    calls = [start(partial(_greet_by_udp, one)) for one in addresses]
    return any(outcome_or(call, until, False) for call in calls)


def _greet_by_udp(one: PeerAddress) -> bool:
    """Ask for a version of QUIC that there is not: a server answers with those that it has, and keeps nothing."""
    ours, theirs = os.urandom(8), os.urandom(8)
    asked = b"\xc0" + NO_VERSION + b"\x08" + theirs + b"\x08" + ours
    try:
        family, kind, _, _, target = socket.getaddrinfo(one.host, one.port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as asking:
            asking.settimeout(TRY)
            asking.connect(target)
            for _ in range(TRIES):
                asking.send(asked.ljust(SMALLEST_INITIAL, b"\0"))
                with contextlib.suppress(TimeoutError):
                    return asking.recv(SMALLEST_INITIAL)[1:14] == b"\0\0\0\0\x08" + ours
    except (OSError, UnicodeError):  # nothing is listening there, or there is no route, or it is no name
        pass
    return False
