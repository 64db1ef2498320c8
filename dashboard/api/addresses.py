"""Whether a URL is private: encrypted, or on this machine."""

import ipaddress
from urllib.parse import urlsplit


def is_loopback(url: str) -> bool:
    """Whether the URL leads nowhere but to the machine that it is used on."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_private(url: str) -> bool:
    """Whether nobody can read along: the connection is encrypted, or stays within one machine."""
    return url.startswith("https://") or is_loopback(url)
