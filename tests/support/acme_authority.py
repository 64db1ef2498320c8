"""A certificate authority on this machine: Pebble, the ACME server with which Let's Encrypt tests clients."""

import contextlib
import datetime
import json
import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support.ports import free_ports
from tests.support.waiting import PATIENCE, wait_until


class WhyNot(Exception):
    """Why no authority can be started, and what to do."""


@dataclass(frozen=True)
class Authority:
    """A running authority, which looks for every name at this machine."""

    directory: str  # URL
    http_port: int  # where it looks for answers to challenges, in place of 80
    bundle: Path  # what the authority's own HTTPS is verified with
    management: str
    names: str  # its DNS server's management

    def root(self) -> str:
        """The certificate that its certificates are verified with, as PEM."""
        verify = ssl.create_default_context(cafile=str(self.bundle))
        return httpx.get(f"{self.management}/roots/0", verify=verify, trust_env=False, timeout=PATIENCE).text


@contextlib.contextmanager
def running_authority(folder: Path) -> Iterator[Authority]:
    """An authority that keeps its files in `folder`.

    Raises:
        WhyNot: Pebble is not installed, or does not start.
    """
    if not (shutil.which("pebble") and shutil.which("pebble-challtestsrv")):
        raise WhyNot("Pebble is not installed; on Debian as root: make pebble")
    api, management, http_port, dns, names = free_ports(5)
    certificate, key = folder / "api.pem", folder / "api.key"
    self_signed("localhost", certificate, key)
    settings = {
        "listenAddress": f"127.0.0.1:{api}",
        "managementListenAddress": f"127.0.0.1:{management}",
        "certificate": str(certificate),
        "privateKey": str(key),
        "httpPort": http_port,
        "tlsPort": http_port,
        "ocspResponderURL": "",
        "externalAccountBindingRequired": False,
    }
    (folder / "pebble.json").write_text(json.dumps({"pebble": settings}))
    authority = Authority(
        f"https://localhost:{api}/dir",
        http_port,
        certificate,
        f"https://localhost:{management}",
        f"http://127.0.0.1:{names}",
    )
    dns_server = [
        *("pebble-challtestsrv", "-defaultIPv6", "", "-http01", "", "-https01", "", "-tlsalpn01", ""),
        *("-dns01", f"127.0.0.1:{dns}", "-management", f"127.0.0.1:{names}"),
    ]
    pebble = ["pebble", "-config", str(folder / "pebble.json"), "-dnsserver", f"127.0.0.1:{dns}"]
    with (folder / "log").open("wb") as log, contextlib.ExitStack() as programs:
        for command in (dns_server, pebble):
            environment = os.environ | {
                "PEBBLE_VA_NOSLEEP": "1",
                "PEBBLE_AUTHZREUSE": "0",
                "PEBBLE_WFE_NONCEREJECT": "0",
            }
            program = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
            programs.callback(program.wait, PATIENCE)
            programs.callback(program.terminate)

        def answers() -> bool:
            with contextlib.suppress(httpx.TransportError):
                httpx.get(authority.names, trust_env=False)
                return bool(authority.root())
            if program.poll() is not None:
                raise WhyNot(f"Pebble did not start: {(folder / 'log').read_text(errors='replace')[-300:]}")
            return False

        wait_until(answers, "certificate authority that answers")
        yield authority


def self_signed(
    name: str, certificate: Path, key: Path, *, days: float = 30, begins: datetime.datetime | None = None
) -> None:
    """Write a certificate of a name that it has signed itself, and its key, as PEM."""
    secret = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    begins = begins or datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(secret, hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    key.write_bytes(secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
