"""Faults on real sockets: what is observed of them leads to the right line."""

import contextlib
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hivemind import hivemind_cli

from app.doctor import link_findings
from app.doctor.network import LinkSeen, PeerAddress, answers_by_udp, knock, look_at_link, peer_address
from app.doctor.results import Mark
from app.join.coordinator_client import CoordinatorClient
from app.join.problems import ProblemKind
from app.join.proxy import proxy_for
from tests.app.doctor.conftest import DESCRIPTION
from tests.app.join.stand_in import Answer, StandIn
from tests.app.join.test_coordinator_client import self_signed
from tests.support.ports import free_port
from tests.support.problems import raises_problem
from tests.support.waiting import PATIENCE

SOON = 0.3  # seconds after which a test gives up on what never answers


@pytest.fixture
def run(server: StandIn) -> StandIn:
    server.answers["GET /api/run"] = Answer(body=DESCRIPTION)
    return server


def look(url: str, patience: float = PATIENCE) -> LinkSeen:
    return look_at_link(url, time.monotonic() + patience)


def test_a_coordinator_that_answers(run: StandIn):
    seen = look(run.url)
    assert link_findings.coordinator(seen).mark is Mark.OK
    assert link_findings.clock(seen).mark is Mark.OK
    assert link_findings.dns(seen).message == "127.0.0.1 needs no name server"


def test_a_wrong_clock(run: StandIn):
    run.clock_offset = 20.0
    seen = look(run.url)
    assert link_findings.coordinator(seen).mark is Mark.OK
    assert link_findings.clock(seen).mark is Mark.FAULT
    assert "behind the coordinator's" in link_findings.clock(seen).message


def test_a_wrong_clock_is_seen_behind_a_certificate_that_is_not_valid(run: StandIn, tmp_path: Path):
    run.clock_offset = 86_400.0 * 400
    speak_tls(run, tmp_path)
    seen = look(run.url.replace("http", "https"))
    assert link_findings.encryption(seen, token_needed=None).mark is Mark.FAULT
    assert "certificate is not valid" in link_findings.encryption(seen, token_needed=None).message
    assert link_findings.coordinator(seen).mark is Mark.SKIPPED
    assert link_findings.clock(seen).mark is Mark.FAULT


def test_no_such_host():
    seen = look("https://no-such-host.invalid")
    assert link_findings.dns(seen).mark is Mark.FAULT
    assert link_findings.coordinator(seen).mark is Mark.SKIPPED
    assert link_findings.clock(seen).mark is Mark.SKIPPED


def test_no_answer(server: StandIn):
    answered = threading.Event()

    def wait_for_the_end(_: object) -> Answer:
        answered.wait(PATIENCE)
        return Answer(404)

    server.answers["GET /api/run"] = wait_for_the_end
    try:
        seen = look(server.url, SOON)
    finally:
        answered.set()
    assert "no answer in time" in link_findings.coordinator(seen).message


@dataclass
class ProxyStandIn:
    """Answers the first line of each connection; `heard` are these lines."""

    url: str
    heard: list[str]


@pytest.fixture
def refusing_proxy() -> Iterator[ProxyStandIn]:
    with serving(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n") as proxy:
        yield proxy


@contextlib.contextmanager
def serving(says: bytes) -> Iterator[ProxyStandIn]:
    listening = socket.create_server(("127.0.0.1", 0))
    proxy = ProxyStandIn(f"http://127.0.0.1:{listening.getsockname()[1]}", [])

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    proxy.heard.append(connection.recv(4096).split(b"\r\n")[0].decode())
                    connection.sendall(says)

    threading.Thread(target=serve, daemon=True).start()
    yield proxy
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_refuses(scheme: str, refusing_proxy: ProxyStandIn, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(f"{scheme}_proxy", refusing_proxy.url.replace("//", "//asha:secret@"))
    seen = look(f"{scheme}://no-such-host.invalid")
    assert any("no-such-host.invalid" in line for line in refusing_proxy.heard)
    found = link_findings.proxy(seen)
    assert found.mark is Mark.FAULT, found
    assert link_findings.coordinator(seen).mark is Mark.SKIPPED
    assert f"{scheme.upper()}_PROXY" in found.message
    assert "secret" not in found.message
    assert link_findings.dns(seen).mark is Mark.FAULT


def test_a_proxy_at_which_nobody_listens(monkeypatch: pytest.MonkeyPatch):
    with bound() as port:
        monkeypatch.setenv("https_proxy", f"127.0.0.1:{port}")
        with CoordinatorClient("https://192.0.2.7") as client, raises_problem(ProblemKind.PROXY) as told:
            client.run()
    assert f"the proxy 127.0.0.1:{port} (HTTPS_PROXY) does not let this program through (nothing" in str(told.value)


def test_a_proxy_that_wants_a_login(monkeypatch: pytest.MonkeyPatch):
    with serving(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n") as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        with CoordinatorClient("http://192.0.2.7") as client, raises_problem(ProblemKind.PROXY, "wants a login"):
            client.run()


def test_a_proxy_of_a_kind_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("all_proxy", "gopher://127.0.0.1:70")
    with raises_problem(ProblemKind.PROXY, r"127.0.0.1:70 \(ALL_PROXY\).*of this kind"):
        CoordinatorClient("https://192.0.2.7")


@pytest.mark.parametrize(
    ("variables", "url", "variable"),
    [
        ({"https_proxy": "http://p:1"}, "https://example.org", "HTTPS_PROXY"),
        ({"https_proxy": "http://p:1"}, "http://example.org", None),
        ({"all_proxy": "p:1"}, "http://example.org", "ALL_PROXY"),
        ({"https_proxy": "http://p:1", "no_proxy": "example.org"}, "https://example.org", None),
        ({"http_proxy": "http://p:1"}, "http://127.0.0.1:8080", None),
        ({}, "https://example.org", None),
    ],
)
def test_which_proxy_is_on_the_way(
    variables: dict[str, str], url: str, variable: str | None, monkeypatch: pytest.MonkeyPatch
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = proxy_for(url)
    assert (found.variable if found else None) == variable
    assert found is None or found.place == "p:1"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"until": -1}, "expired"),
        ({"host": "other.example.org"}, "mismatch"),
    ],
)
def test_a_certificate_that_is_not_valid(
    changes: dict[str, Any], words: str, run: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    speak_tls(run, tmp_path, **changes)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    monkeypatch.setattr("app.join.coordinator_client.is_loopback", lambda _: False)  # the variable counts elsewhere
    seen = look(run.url.replace("http", "https"))
    found = link_findings.encryption(seen, token_needed=True)
    assert found.mark is Mark.FAULT
    assert words in found.message


def test_peers_that_answer_refuse_and_drop():
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_server(("127.0.0.1", 0), backlog=0) as full,
        bound() as refusing,
        contextlib.ExitStack() as waiting,
    ):
        for _ in range(3):  # what comes next is dropped
            caller = waiting.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(full.getsockname())
        ports = [listening.getsockname()[1], refusing, full.getsockname()[1]]
        addresses = [PeerAddress(str(port), "", "127.0.0.1", port) for port in ports]
        found = knock(addresses[:2], time.monotonic() + PATIENCE) | knock(addresses[2:], time.monotonic() + SOON)
    answering, refused, dropped = (found[one] for one in addresses)
    assert answering is None
    assert isinstance(refused, ConnectionRefusedError)
    assert isinstance(dropped, TimeoutError)


def test_an_address_with_a_host_that_is_no_name_does_not_end_the_doctor():
    one = peer_address(f"/dns4/{'x' * 64}.example.org/tcp/31337/p2p/QmA")
    assert one is not None
    assert isinstance(knock([one], time.monotonic() + PATIENCE)[one], UnicodeError)
    assert not answers_by_udp([one], time.monotonic() + PATIENCE)


@pytest.fixture(scope="module")
def quic_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of a libp2p daemon."""
    folder = tmp_path_factory.mktemp("daemon")
    port = free_port()
    daemon = Path(hivemind_cli.__path__[0]) / "p2pd"
    heard = f"/ip4/127.0.0.1/udp/{port}/quic-v1"
    with subprocess.Popen(
        [daemon, "-listen", f"/unix{folder}/control", "-hostAddrs", heard], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert any("Peer Addrs" in line for line in process.stdout), "it listens by then"
        yield port
        process.kill()


def test_a_daemon_answers_by_udp_and_others_do_not(quic_port: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.doctor.network.TRY", PATIENCE)  # however busy this machine is
    with bound() as nobody, socket.socket(type=socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        there, refusing, dropping = (
            PeerAddress("", "", "127.0.0.1", port) for port in (quic_port, nobody, silent.getsockname()[1])
        )
        assert answers_by_udp([refusing, there], time.monotonic() + PATIENCE)
        assert not answers_by_udp([refusing], time.monotonic() + PATIENCE)
        assert not answers_by_udp([dropping], time.monotonic() + SOON)
        assert not answers_by_udp([], time.monotonic() + PATIENCE)


@pytest.mark.parametrize(
    ("address", "host", "port", "peer_id"),
    [
        ("/ip4/192.0.2.1/tcp/31337/p2p/QmA", "192.0.2.1", 31337, "QmA"),
        ("/dns4/run.example.org/tcp/31337/p2p/QmA", "run.example.org", 31337, "QmA"),
        ("/ip6/2001:db8::1/tcp/1/p2p/QmA", "2001:db8::1", 1, "QmA"),
        ("/ip4/192.0.2.1/tcp/4001/p2p/QmRelay/p2p-circuit/p2p/QmA", "192.0.2.1", 4001, "QmA"),
    ],
)
def test_where_to_connect_for_an_address(address: str, host: str, port: int, peer_id: str):
    found = peer_address(address)
    assert found == PeerAddress(address, peer_id, host, port)


@pytest.mark.parametrize(
    "address",
    ["", "/ip4/192.0.2.1/udp/1/quic/p2p/QmA", "/ip4/192.0.2.1/tcp/x/p2p/QmA", "/ip4/192.0.2.1/tcp/70000/p2p/QmA"],
)
def test_addresses_that_are_not_reached_by_tcp(address: str):
    assert peer_address(address) is None


@contextlib.contextmanager
def bound() -> Iterator[int]:
    """A port at which nobody listens and nobody will."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def speak_tls(server: StandIn, folder: Path, *, host: str = "127.0.0.1", until: int = 1) -> None:
    """Serve with a certificate for a host that is valid until so many days from now."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(folder / "certificate.pem", host=host, until=until))
    server.server.socket = context.wrap_socket(server.server.socket, server_side=True)
