"""The certificate that new connections are encrypted with, from a file that may be replaced during the run."""

import ssl
from pathlib import Path

from cryptography import x509

from coordinator.https.authority import CertificateError
from swarm.errors import in_a_line


class Certificate:
    """What was loaded last. Threads may share it; connections keep what they began with."""

    def __init__(self) -> None:
        self._context: ssl.SSLContext | None = None
        self.expires = 0.0  # unix seconds
        self.renew_at = 0.0  # unix seconds: when a third of its time is left

    def context(self) -> ssl.SSLContext:
        """For a new connection."""
        assert self._context is not None, "loaded before the port is opened"
        return self._context

    def load(self, certificate: Path, key: Path, host: str) -> None:
        """Take these files from now on: PEM, the host's own certificate first.

        Raises:
            CertificateError: they cannot be read, do not belong together, or are for another host.
        """
        try:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate, key, password=lambda: "")  # else OpenSSL would ask at the terminal
            context.set_alpn_protocols(["http/1.1"])
            own = x509.load_pem_x509_certificate(certificate.read_bytes())
        except (FileNotFoundError, PermissionError) as error:
            named = f"{certificate} or {key}"  # OpenSSL does not say which
            raise CertificateError(
                f"{named}: {error.strerror}; correct access.tls, or let this program read both"
            ) from None
        except (OSError, ValueError) as error:
            reason = in_a_line(getattr(error, "strerror", None) or error)
            raise CertificateError(
                f"{certificate}: no certificate with its key ({reason}); give PEM files that belong together"
            ) from None
        if not is_for(own, host):
            raise CertificateError(f"{certificate}: not a certificate of {host}; correct access.url or access.tls")
        begins = own.not_valid_before_utc.timestamp()
        self.expires = own.not_valid_after_utc.timestamp()
        self.renew_at = begins + (self.expires - begins) * 2 / 3
        self._context = context


def is_for(certificate: x509.Certificate, host: str) -> bool:
    """Whether a certificate names a host, or all names of its domain."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    domain = host.partition(".")[2]
    return bool({host, f"*.{domain}"} & {name.lower() for name in names.get_values_for_type(x509.DNSName)})
