"""Certificates of a real ACME server, and what its refusals tell an organizer."""

from pathlib import Path

import pytest
from cryptography import x509

from coordinator.http.server import Server
from coordinator.https.authority import CertificateError, describe, obtain
from coordinator.https.service import redirecting
from tests.coordinator.https.conftest import HOST
from tests.support.acme_authority import Authority
from tests.support.ports import free_ports


def test_a_certificate_is_obtained_and_the_account_is_used_again(authority: Authority, tmp_path: Path) -> None:
    answers: dict[str, str] = {}
    account = tmp_path / "https" / "account.key"
    server = Server(redirecting(f"https://{HOST}", answers), "127.0.0.1", authority.http_port)
    try:
        first = obtain(HOST, authority.directory, account, answers)
        key = account.read_bytes()
        second = obtain(HOST, authority.directory, account, answers)
    finally:
        server.stop()
    assert account.read_bytes() == key and account.stat().st_mode & 0o777 == 0o600
    assert answers == {}
    numbers = {x509.load_pem_x509_certificates(pem)[0].serial_number for pem in (first, second)}
    assert len(numbers) == 2


def test_refusals_name_the_way_out(authority: Authority, tmp_path: Path) -> None:
    account = tmp_path / "account.key"

    def refusal(host: str = HOST, directory: str = authority.directory) -> str:
        with pytest.raises(CertificateError) as caught:
            obtain(host, directory, account, {})
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "open it in its firewall" in refusal()  # nothing listens
    other = Server(redirecting("https://elsewhere.example.org", {}), "127.0.0.1", authority.http_port)
    try:
        assert "another machine" in refusal()
    finally:
        other.stop()
    assert "illegal character" in refusal("run_1.example.org")
    (closed,) = free_ports(1)
    assert "localhost does not answer (ConnectionError)" in refusal(directory=f"https://localhost:{closed}/dir")
    account.write_text("no key")
    assert "remove the file" in refusal()


@pytest.mark.parametrize(
    ("kind", "detail", "way_out"),
    [  # those that Pebble does not tell, in the words of Let's Encrypt
        ("dns", "DNS problem: NXDOMAIN looking up A for run.example.org", "give the name an A record"),
        ("rateLimited", "too many certificates (5) already issued, retry after 2026-11-27 04:00:00 UTC", "until then"),
        ("caa", "CAA record for example.org prevents issuance", "CAA record of the domain"),
        ("serverInternal", "The service is down for maintenance", "start again later"),
    ],
)
def test_what_lets_encrypt_says_is_told_with_the_way_out(kind: str, detail: str, way_out: str) -> None:
    messages = pytest.importorskip("acme.messages")
    told = describe(HOST, messages.Error(typ=f"urn:ietf:params:acme:error:{kind}", detail=detail))
    assert told.startswith(f"{HOST}: no certificate: {detail}; ") and way_out in told
