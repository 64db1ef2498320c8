"""What is observed of the way from this machine to a coordinator and to peers."""

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


@dataclass(frozen=True)
class LinkSeen:
    """What came of asking for a run at its link, which may have led on to HTTPS."""

    url: str
    addresses: list[str] | JoinProblem  # of the host
    run: RunDescription | JoinProblem
    ahead: float | None  # seconds by which the coordinator's clock is ahead of ours
    proxy: Proxy | None = None
    without_proxy: RunDescription | JoinProblem | None = None  # None: there is none, or it was of use


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
    proxy = proxy_for(url)
    names = start(lambda: look_up(url))
    through = start(lambda: ask_for_run(url, patience))
    past = start(lambda: ask_for_run(url, patience, use_proxy=False)) if proxy else None
    nameless = explain(url, socket.gaierror(socket.EAI_AGAIN, ""))
    silent = explain(url, httpx.ReadTimeout(""))
    addresses = outcome_or(names, until, nameless)
    run, ahead, base = outcome_or(through, until, (silent, None, url))
    without_proxy = None
    if past is not None and isinstance(run, JoinProblem):
        without_proxy, ahead_there, _ = outcome_or(past, until, (silent, None, url))
        ahead = ahead_there if ahead is None else ahead
    return LinkSeen(base, addresses, run, ahead, proxy, without_proxy)


def look_up(url: str) -> list[str] | JoinProblem:
    """The addresses of the host in a URL."""
    try:
        found = socket.getaddrinfo(urlsplit(url).hostname, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return explain(url, error)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def ask_for_run(
    url: str, patience: float, *, use_proxy: bool = True
) -> tuple[RunDescription | JoinProblem, float | None, str]:
    """What the run is, by how many seconds the coordinator's clock is ahead of ours, and the URL in the end."""
    try:
        with CoordinatorClient(url, patience=patience, tolerance=float("inf"), use_proxy=use_proxy) as client:
            try:
                return client.description(), client.ahead, client.base
            except JoinProblem as problem:
                ahead = (
                    _clock_behind_bad_certificate(url, patience) if problem.kind is ProblemKind.TLS else client.ahead
                )
                return problem, ahead, client.base
    except JoinProblem as problem:
        return problem, None, url


def _clock_behind_bad_certificate(url: str, patience: float) -> float | None:
    """The offset of the clock where no certificate is valid, of which a wrong clock is a usual reason.

    Nothing secret is sent, and nothing else of the answer is used.
    """
    try:
        headers = httpx.head(f"{url}/api/run", verify=False, timeout=patience, trust_env=False).headers
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


def knock(addresses: Iterable[PeerAddress], until: float) -> dict[PeerAddress, OSError | None]:
    """Connect to each by TCP, all at once; what stands in the way of those that do not answer."""
    calls = {one: start(partial(_connect, one, until)) for one in addresses}
    return {one: outcome_or(call, until, TimeoutError()) for one, call in calls.items()}


def _connect(one: PeerAddress, until: float) -> OSError | None:
    try:
        with socket.create_connection((one.host, one.port), timeout=max(0.1, until - time.monotonic())):
            return None
    except OSError as error:
        return error
