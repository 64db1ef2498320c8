"""Host names and addresses, as they stand in URLs and settings."""

import ipaddress


def is_this_machine(host: str) -> bool:
    """Whether a host name or address leads nowhere but to the machine that it is used on."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_name(host: str) -> bool:
    """Whether a host is a name of a domain, which can have a certificate, and no address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "." in host
    return False
