"""What an address says about who can listen on the way."""

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
    """Whether nobody on the way can read what is said: encrypted, or within one machine."""
    return url.startswith("https://") or is_loopback(url)
