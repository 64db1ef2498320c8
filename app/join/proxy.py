"""The proxy that the environment names for a URL (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY)."""

from dataclasses import dataclass
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from app.join.address import is_loopback


@dataclass(frozen=True)
class Proxy:
    """A proxy, and the variable that names it."""

    variable: str
    place: str  # host and port; a login in the variable is left out

    @property
    def shown(self) -> str:
        """For people."""
        return f"{self.place} ({self.variable})"


def proxy_for(url: str) -> Proxy | None:
    """The proxy on the way to a URL; None if there is none."""
    parts = urlsplit(url)
    if is_loopback(url) or proxy_bypass(parts.hostname or ""):
        return None
    named = getproxies()
    for scheme in (parts.scheme, "all"):
        if given := named.get(scheme):
            place = given.rpartition("@")[2].rpartition("://")[2].rstrip("/")
            return Proxy(f"{scheme.upper()}_PROXY", place)
    return None
