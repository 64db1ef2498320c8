"""HTTPS on a socket: with a certificate of a real authority, with files, and across renewals."""

import contextlib
import datetime
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from cryptography import x509
from fastapi import FastAPI

from coordinator.http.server import MOST_CONNECTIONS, Server
from coordinator.https.authority import CertificateError
from coordinator.https.certificate import Certificate
from coordinator.https.service import CertificateKeeper, keep_fresh, redirecting, serve_https
from coordinator.public_run import for_everybody, without_secrets
from swarm.errors import StorageError, SwarmError
from swarm.run_file import RunFile, dump_run
from tests.access.attackers.crowds.crowd import Crowd, crowd_at
from tests.coordinator.https.conftest import HOST
from tests.support.acme_authority import Authority, self_signed
from tests.support.ports import free_ports
from tests.support.waiting import PATIENCE, wait_until

MakeRun = Callable[..., RunFile]
REQUEST = f"GET /hello HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


@pytest.fixture
def app() -> FastAPI:
    made = FastAPI()

    @made.get("/hello")
    def hello() -> str:
        return "river"

    @made.get("/large")
    def large() -> str:
        return "r" * 1_000_000

    return made


@contextlib.contextmanager
def connected(port: int, root: str) -> Iterator[ssl.SSLSocket]:
    context = ssl.create_default_context(cadata=root)
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname=HOST) as secured,
    ):
        yield secured


def ask(connection: ssl.SSLSocket) -> bytes:
    connection.sendall(REQUEST)
    answer = b""
    while not answer.endswith(b'"river"'):
        got = connection.recv(65536)
        assert got, answer
        answer += got
    return answer


def serial(connection: ssl.SSLSocket) -> int:
    certificate = connection.getpeercert(binary_form=True)
    assert certificate is not None
    return x509.load_der_x509_certificate(certificate).serial_number


def test_auto_serves_https_with_a_certificate_that_is_kept(
    authority: Authority, app: FastAPI, make_run: MakeRun, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    run = make_run(port=port, http_port=authority.http_port, directory=authority.directory)
    said: list[str] = []
    seen = []
    for _ in range(2):  # the second start asks nobody
        with serve_https(app, run, tmp_path, said.append), connected(port, authority.root()) as connection:
            assert ask(connection).startswith(b"HTTP/1.1 200")
            seen.append(serial(connection))
            plain = httpx.get(f"http://127.0.0.1:{authority.http_port}/a/b?c=d", trust_env=False, timeout=PATIENCE)
            assert (plain.status_code, plain.headers["location"]) == (308, f"https://{HOST}/a/b?c=d")
    assert seen[0] == seen[1]
    assert said == []
    assert {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "https").iterdir()} == {
        "account.key": 0o600,
        "certificate.pem": 0o600,
    }


def test_a_renewal_leaves_connections_alone(
    authority: Authority, app: FastAPI, make_run: MakeRun, tmp_path: Path
) -> None:
    answers: dict[str, str] = {}
    run = make_run(http_port=authority.http_port, directory=authority.directory)
    keeper = CertificateKeeper(run, tmp_path, answers)
    front = Server(redirecting(f"https://{HOST}", answers), "127.0.0.1", authority.http_port)
    try:
        keeper.refresh()
        server = Server(app, "127.0.0.1", 0, tls=keeper.certificate.context)
        try:
            with connected(server.port, authority.root()) as before:
                ask(before)
                keeper.refresh()
                with connected(server.port, authority.root()) as same:
                    assert serial(same) == serial(before), "not due"
                keeper.certificate.renew_at = 0.0
                keeper.refresh()
                assert ask(before).startswith(b"HTTP/1.1 200")
                with connected(server.port, authority.root()) as after:
                    assert ask(after).startswith(b"HTTP/1.1 200")
                    assert serial(after) != serial(before)
        finally:
            server.stop()
    finally:
        front.stop()


def test_a_certificate_that_cannot_be_renewed_is_used_while_it_is_valid(
    app: FastAPI, make_run: MakeRun, tmp_path: Path
) -> None:
    pytest.importorskip("acme")
    port, http_port, closed = free_ports(3)
    run = make_run(port=port, http_port=http_port, directory=f"https://localhost:{closed}/dir")
    folder = tmp_path / "https"
    folder.mkdir()
    now = datetime.datetime.now(datetime.timezone.utc)
    for left in (20.5, -1):
        begins = now - datetime.timedelta(days=90 - left)
        self_signed(HOST, folder / "own.pem", folder / "own.key", days=90, begins=begins)
        pem = (folder / "own.key").read_text() + (folder / "own.pem").read_text()
        (folder / "certificate.pem").write_text(pem)
        said: list[str] = []
        if left > 0:
            with serve_https(app, run, tmp_path, said.append), connected(port, pem) as connection:
                ask(connection)
            (line,) = said
            assert line.startswith(f"problem: {HOST}: no certificate: localhost does not answer")
            assert "valid for 20 days" in line
        else:
            with pytest.raises(CertificateError, match="does not answer"), serve_https(app, run, tmp_path, said.append):
                pass


def test_files_that_expire_soon_are_told_once_and_expired_ones_are_refused(
    app: FastAPI, make_run: MakeRun, tmp_path: Path
) -> None:
    pem, key, (port,) = tmp_path / "a.pem", tmp_path / "a.key", free_ports(1)
    run, now = make_run(certificate="a.pem", key="a.key", port=port), datetime.datetime.now(datetime.timezone.utc)
    for left in (8.5, 3.5, -1):
        self_signed(HOST, pem, key, days=90, begins=now - datetime.timedelta(days=90 - left))
        keeper, said, stop = CertificateKeeper(run, tmp_path, {}), list[str](), Looks(3)
        keep_fresh(keeper, stop, said.append)
        assert len(said) == (left < 7)
        assert all("a.pem: valid until 20" in line and "; renew it (" in line for line in said)
    with pytest.raises(CertificateError, match="renew it"), serve_https(app, run, tmp_path, print):
        pass


class Looks(threading.Event):
    """Set after so many looks at the certificate."""

    def __init__(self, looks: int):
        super().__init__()
        self._left = looks

    def wait(self, timeout: float | None = None) -> bool:
        self._left -= 1
        return self._left < 0


def test_a_certificate_that_could_not_be_written_is_not_obtained_again(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem, key, asked = tmp_path / "a.pem", tmp_path / "a.key", list[str]()
    self_signed(HOST, pem, key)

    def obtain(host: str, *_: object) -> bytes:
        asked.append(host)
        return key.read_bytes() + pem.read_bytes()

    def full(path: Path, *_: object, **__: object) -> None:
        raise StorageError(f"{path}: no space left on device")

    monkeypatch.setattr("coordinator.https.service.obtain", obtain)
    keeper = CertificateKeeper(make_run(), tmp_path / "https", {})
    with monkeypatch.context() as patch, pytest.raises(StorageError):
        patch.setattr("coordinator.https.service.write_file", full)
        keeper.refresh()
    keeper.refresh()
    assert asked == [HOST]
    keeper.certificate.context()


def test_files_are_read_again_and_wrong_ones_are_one_line(app: FastAPI, make_run: MakeRun, tmp_path: Path) -> None:
    first, second = tmp_path / "a.pem", tmp_path / "a.key"
    (port,) = free_ports(1)
    run = make_run(certificate="a.pem", key="a.key", port=port)
    with pytest.raises(CertificateError, match=r"a\.pem or .*a\.key: No such file or directory; correct access\.tls"):
        CertificateKeeper(run, tmp_path, {}).refresh()
    self_signed("other.example.org", first, second)
    with pytest.raises(CertificateError, match=rf"a\.pem: not a certificate of {HOST}"):
        CertificateKeeper(run, tmp_path, {}).refresh()
    self_signed("*.example.org", first, second)
    keeper = CertificateKeeper(run, tmp_path, {})
    keeper.refresh()
    kept = first.read_text()
    self_signed(HOST, first, tmp_path / "foreign.key")
    with pytest.raises(CertificateError, match="belong together") as caught:
        keeper.refresh()
    assert "\n" not in str(caught.value)
    first.write_text(kept)
    with serve_https(app, run, tmp_path, print), connected(port, kept) as connection:
        ask(connection)
        with pytest.raises(SwarmError, match=rf"{port}: .*end the program that has the port .*access\.tls\.port"):
            Server(app, "127.0.0.1", port, setting="access.tls.port")


def test_a_renewal_that_fails_is_said_once_until_it_has_worked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.https.service.LOOK_EVERY", 0.001)
    outcomes = ["away", "away", "refused", None, "refused", KeyError("new"), "refused"]
    stop, said = threading.Event(), list[str]()

    def refresh() -> None:
        outcome = outcomes.pop(0)
        if not outcomes:
            stop.set()
        if outcome:
            raise CertificateError(outcome) if isinstance(outcome, str) else outcome

    keeper: Any = SimpleNamespace(refresh=refresh, describe=str)
    keep_fresh(keeper, stop, said.append)
    unforeseen = "the certificate could not be looked at (KeyError: 'new'); see the log and report it"
    assert said == ["away", "refused", "refused", unforeseen, "refused"]


def test_nobody_is_told_of_the_files(make_run: MakeRun) -> None:
    run = make_run(certificate="/home/asha/a.pem", key="/home/asha/a.key")
    assert "asha" in dump_run(run)
    assert "asha" not in dump_run(without_secrets(run)) + dump_run(for_everybody(run))


@pytest.fixture
def secured(app: FastAPI, tmp_path: Path) -> Iterator[tuple[Server, str]]:
    """A server with HTTPS, and the certificate that it is verified with."""
    pem, key = tmp_path / "own.pem", tmp_path / "own.key"
    self_signed(HOST, pem, key)
    certificate = Certificate()
    certificate.load(pem, key, HOST)
    server = Server(app, "127.0.0.1", 0, tls=certificate.context)
    yield server, pem.read_text()
    server.stop()


def test_connections_in_a_handshake_are_counted_and_given_up(
    secured: tuple[Server, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, root = secured
    held = server._server.server_state.connections
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as silent, connected(server.port, root) as good:
        ask(good)
        assert len(held) == 2
        (waiting,) = (one for one in held if one.scheme == "http")  # type: ignore[union-attr]
        waiting.loop.call_soon_threadsafe(waiting.drop)  # type: ignore[union-attr]
        assert silent.recv(1) == b""
        ask(good)
    for spoken in (b"GET / HTTP/1.1\r\n\r\n", b""):
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as plain:
            plain.sendall(spoken)
            if not spoken:
                plain.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                while plain.recv(1000):
                    pass
    with connected(server.port, root) as good:
        ask(good)
    wait_until(lambda: not held, "end of the connections")


def test_a_thousand_silent_sockets_shut_out_nobody(secured: tuple[Server, str]) -> None:
    server, root = secured
    with crowd_at(Crowd("127.0.0.1", server.port, "127.0.0.2")):
        for _ in range(5):
            with connected(server.port, root) as good:
                assert ask(good).startswith(b"HTTP/1.1 200")
        assert len(server._server.server_state.connections) <= MOST_CONNECTIONS


def test_large_answers_and_several_clients_at_a_time(secured: tuple[Server, str]) -> None:
    server, root = secured
    context = ssl.create_default_context(cadata=root)
    lengths: list[int] = []

    def read() -> None:
        with httpx.Client(verify=context, trust_env=False, timeout=PATIENCE) as client:
            for _ in range(3):
                answer = client.get(
                    f"https://127.0.0.1:{server.port}/large",
                    headers={"Host": HOST},
                    extensions={"sni_hostname": HOST},
                )
                lengths.append(len(answer.json()))

    readers = [threading.Thread(target=read) for _ in range(4)]
    for one in readers:
        one.start()
    for one in readers:
        one.join()
    assert lengths == [1_000_000] * 12
