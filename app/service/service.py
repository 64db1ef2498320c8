"""What a service is, whatever starts it; and what of the installer's environment it keeps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PREFIX = "sahaj-"  # of the names of units and agents
RESTART_AFTER = 60  # seconds between two starts
# a proxy and a certificate are needed to get out, the rest says what was chosen; nothing that holds a secret
KEPT = (
    *("PATH", "SAHAJ_NAME", "SAHAJ_LANGUAGE", "SAHAJ_TORCH_INDEX", "SAHAJ_LOG_LEVEL", "XDG_CACHE_HOME"),
    *("HF_HOME", "HF_TOKEN_PATH"),
    *("HF_ENDPOINT", "SSL_CERT_FILE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
)


@dataclass(frozen=True)
class Service:
    """A trainer that is started again and again."""

    name: str  # that of the peer's folder
    link: str
    folder: Path  # of the peer
    script: str  # of /bin/sh
    words: tuple[str, ...]  # that the script gets
    final: tuple[int, ...]  # exit statuses after which it does not start again
    environment: Mapping[str, str] = field(default_factory=dict)
    seconds_to_stop: int = 30

    @property
    def label(self) -> str:
        """Its name among the services of the user."""
        return f"{PREFIX}{self.name}"


@dataclass(frozen=True)
class State:
    """What systemd or launchd says of a service."""

    runs: bool
    waits: bool = False  # to start it again
    since: str = ""  # empty if it does not tell
    status: int | None = None  # with which the program has ended; None: it has not


def kept_environment(environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What the service keeps of it, and the names of what it cannot: values with a login in them, or odd letters."""
    given = {name: environment[name] for name in KEPT if name in environment}
    left_out = [name for name, value in given.items() if not value.isprintable() or ("@" in value and name != "PATH")]
    return {name: value for name, value in given.items() if name not in left_out}, left_out
