"""Every failure of the coordinator's HTTP client has a line and an exit status of its own."""

import base64
import datetime
import ipaddress
import socket
import ssl
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.join.background.pass_renewal import CoordinatorContact
from app.join.coordinator_client import LONGEST_ANSWER, CoordinatorClient
from app.join.hub_token import HubToken, check_token
from app.join.problems import LONGEST_LINE, ProblemKind, explain
from swarm.access.join_messages import JoinRequest, Refusal
from tests.app.join.conftest import refused
from tests.app.join.stand_in import OPEN_RUN, Answer, StandIn
from tests.support.problems import raises_problem
from tests.support.waiting import PATIENCE

TOKEN = "hf_secret"

STATUS = {
    Refusal.MALFORMED: (422, 42),
    Refusal.TOKEN_MISSING: (401, 26),
    Refusal.TOKEN_REJECTED: (401, 27),
    Refusal.NOT_ALLOWED: (403, 29),
    Refusal.BANNED: (403, 30),
    Refusal.WRONG_VERSION: (426, 31),
    Refusal.WRONG_FINGERPRINT: (409, 32),
    Refusal.PAUSED: (503, 33),
    Refusal.FINISHED: (410, 34),
    Refusal.TOO_MANY: (429, 35),
    Refusal.HUB_AWAY: (503, 36),
}


@pytest.mark.parametrize("refusal", Refusal)
def test_each_refusal_has_its_status(refusal: Refusal, coordinator: StandIn, request_to_join: JoinRequest):
    status, exit_status = STATUS[refusal]
    coordinator.answers["POST /api/join"] = Answer(status, refused(refusal.value), {"Retry-After": "7"})
    with CoordinatorClient(coordinator.url) as client, raises_problem(ProblemKind[refusal.name]) as problem:
        client.join(request_to_join, TOKEN)
    assert problem.value.exit_status == exit_status
    assert str(problem.value) == "a reason; a way out (try again in 7 s)"
    assert problem.value.retry_after == 7
    assert coordinator.heard[-1].bearer == TOKEN


@pytest.mark.parametrize("asked", ["99999999999", "9" * 400])
def test_nobody_waits_for_years(asked: str, coordinator: StandIn, request_to_join: JoinRequest):
    coordinator.answers["POST /api/join"] = Answer(503, refused("paused"), {"Retry-After": asked})
    with CoordinatorClient(coordinator.url) as client, raises_problem(ProblemKind.PAUSED) as problem:
        client.join(request_to_join, TOKEN)
    assert problem.value.retry_after == 3600.0


def test_certificates_that_are_gone_are_named(monkeypatch: pytest.MonkeyPatch, hub: StandIn):
    monkeypatch.setenv("SSL_CERT_FILE", "/old/conda/cacert.pem")
    words = r"certificates cannot be read \(No such file or directory\); correct or unset SSL_CERT_FILE=/old/conda"
    with raises_problem(ProblemKind.TLS, match=f"https://run.example.org: {words}"):
        CoordinatorClient("https://run.example.org")
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example.org")
    with raises_problem(ProblemKind.TLS, match=f"https://hub.example.org: {words}"):
        check_token(HubToken(TOKEN, "HF_TOKEN"), allow_write=False)
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    with raises_problem(ProblemKind.HUB_AWAY, match="ImportError"):
        check_token(HubToken(TOKEN, "HF_TOKEN"), allow_write=False)


def expect(url: str, kind: ProblemKind, words: str, *, patience: float = PATIENCE) -> None:
    with CoordinatorClient(url, patience=patience) as client, raises_problem(kind) as problem:
        client.run()
    line = str(problem.value)
    assert words in line
    assert line.isprintable()


def test_no_such_host():
    expect("https://no-such-host.invalid", ProblemKind.NO_SUCH_HOST, "no such host")


def test_an_answer_that_breaks_off(server: StandIn):
    server.answers["GET /api/run"] = Answer(body=OPEN_RUN, headers={"Content-Length": "9999"})
    expect(server.url, ProblemKind.NO_ANSWER, "broke off in the middle of an answer; try again")


def test_nobody_listens():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        link = f"http://127.0.0.1:{taken.getsockname()[1]}"
        expect(link, ProblemKind.COORDINATOR_AWAY, "the link leads to this machine itself")


def test_a_link_without_a_port_is_told_which_one_it_means():
    said = str(explain("http://192.0.2.1", ConnectionRefusedError()))
    assert said.startswith("http://192.0.2.1: nothing is listening on port 80,") and "itself" not in said


def test_no_answer_in_time(server: StandIn):
    server.answers["GET /api/run"] = Answer(delay=5.0)
    expect(server.url, ProblemKind.NO_ANSWER, "no answer in time", patience=0.2)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, "<!doctype html><html>Welcome</html>"),
        Answer(200, '{"status": "ok"}'),
        Answer(200, "[1, 2"),
        Answer(200, "[" * 100_000),
        Answer(404, "<html>"),
        Answer(401, "<html>"),
        Answer(422, '{"detail": []}'),
        Answer(302, "", {"Location": "https://other.example.org/api/run"}),
        Answer(302, "", {"Location": ""}),
        Answer(302, "", {"Location": "/login"}),
        Answer(418, b"\xff\xfe"),
    ],
)
def test_something_else_answers(answer: Answer, server: StandIn):
    server.answers["GET /api/run"] = answer
    expect(server.url, ProblemKind.NOT_A_COORDINATOR, server.url)


def test_something_that_speaks_no_http():
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            connection, _ = listening.accept()
            connection.recv(4096)
            connection.sendall(b"SSH-2.0-OpenSSH_9.0\r\n")
            connection.close()

        threading.Thread(target=greet, daemon=True).start()
        expect(
            f"http://127.0.0.1:{listening.getsockname()[1]}", ProblemKind.NOT_A_COORDINATOR, "cannot be read as HTTP"
        )


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (
            Answer(503, {"error": "unavailable", "message": "the ledger is away"}),
            ProblemKind.COORDINATOR_AWAY,
            "the ledger is away",
        ),
        (Answer(502, "<html>Bad Gateway</html>"), ProblemKind.COORDINATOR_AWAY, "HTTP 502"),  # of a proxy before it
        (Answer(200, b" " * (LONGEST_ANSWER + 1)), ProblemKind.MANIFEST, "longer than"),
    ],
)
def test_a_coordinator_that_cannot_be_used_now(answer: Answer, kind: ProblemKind, words: str, server: StandIn):
    server.answers["GET /api/run"] = answer
    expect(server.url, kind, words)


def test_following_stays_on_the_host(server: StandIn):
    server.answers["GET /api/run"] = Answer(307, "", {"Location": "/below/api/run"})
    server.answers["GET /below/api/run"] = Answer(body=OPEN_RUN)
    with CoordinatorClient(server.url) as client:
        assert client.run().access.open
        assert client.base == f"{server.url}/below"


@pytest.mark.parametrize(("offset", "words"), [(300, "5 minutes behind the"), (-45, "4[4-6] s ahead of the")])
def test_a_wrong_clock(offset: float, words: str, coordinator: StandIn):
    coordinator.clock_offset = offset
    with CoordinatorClient(coordinator.url) as client, raises_problem(ProblemKind.CLOCK_WRONG, match=words):
        client.run()


def test_a_clock_that_was_set_since_the_start_keeps_nobody_from_renewing(coordinator: StandIn):
    coordinator.clock_offset = 300
    coordinator.answers["GET /api/notices"] = Answer(body={"signed": base64.b64encode(b"notices").decode()})
    nobody: Any = SimpleNamespace(notices=SimpleNamespace(url=""))
    assert CoordinatorContact(coordinator.url, nobody, nobody, None).fetch_notices() == b"notices"


def test_a_clock_that_is_right_enough(coordinator: StandIn):
    coordinator.clock_offset = 20
    with CoordinatorClient(coordinator.url) as client:
        assert not client.run().access.open


def test_https_where_http_is_spoken(server: StandIn):
    expect(server.url.replace("http", "https"), ProblemKind.TLS, f"try {server.url}")


def test_a_certificate_of_nobody(server: StandIn, tmp_path: Path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path / "certificate.pem"))
    server.server.socket = context.wrap_socket(server.server.socket, server_side=True)
    expect(server.url.replace("http", "https"), ProblemKind.TLS, "certificate is not valid")


def test_a_message_from_outside_cannot_steer_the_terminal(coordinator: StandIn, request_to_join: JoinRequest):
    coordinator.answers["POST /api/join"] = Answer(403, refused("banned", "go\x1b[2J\naway" + "!" * 5000))
    with CoordinatorClient(coordinator.url) as client, raises_problem(ProblemKind.BANNED) as problem:
        client.join(request_to_join, None)
    assert str(problem.value).isprintable()
    assert len(str(problem.value)) <= LONGEST_LINE


def self_signed(path: Path, *, host: str = "127.0.0.1", until: int = 1) -> Path:
    """A certificate and its key in one file, valid until so many days from now."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=3))
        .not_valid_after(now + datetime.timedelta(days=until))
        .add_extension(x509.SubjectAlternativeName([_name_in_certificate(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path


def _name_in_certificate(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
