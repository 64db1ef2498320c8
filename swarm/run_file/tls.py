"""Where the coordinator's HTTPS comes from: a certificate that it obtains and renews, or files of the organizer's."""

from typing import Any

from pydantic import Field, model_validator

from swarm.run_file.section import Section
from swarm.run_file.validation_messages import shown

LETS_ENCRYPT = "https://acme-v02.api.letsencrypt.org/directory"


class TLSSection(Section):
    """HTTPS beside the plain HTTP of `access.host` and `access.port`. In a run file `auto` means all defaults."""

    certificate: str | None = Field(
        None, description="PEM file with the certificate and its chain; absent: one is obtained, and renewed"
    )
    key: str | None = Field(None, description="PEM file with the certificate's private key")
    port: int = Field(443, gt=0, le=65535, description="TCP port of this machine for HTTPS")
    http_port: int = Field(
        80, gt=0, le=65535, description="TCP port of this machine to which the public port 80 leads; not with files"
    )
    directory: str = Field(LETS_ENCRYPT, description="ACME directory of the certificate authority")

    @model_validator(mode="before")
    @classmethod
    def _auto(cls, given: Any) -> Any:
        if given == "auto":
            return {}
        if not isinstance(given, dict | TLSSection):
            raise ValueError(f"must be auto, or a section with certificate and key, or ports, got {shown(given)}")
        return given

    @model_validator(mode="after")
    def _both_files(self) -> "TLSSection":
        if (self.certificate is None) != (self.key is None):
            missing = "key" if self.key is None else "certificate"
            raise ValueError(f"{missing} is missing; give the two PEM files, or neither: tls: auto")
        return self
