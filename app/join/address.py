"""Completes and checks the coordinator's URL as people paste it."""

import contextlib
import ipaddress
import re
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from app.join.problems import JoinProblem, ProblemKind, one_line
from swarm.hosts import is_this_machine
from swarm.language import _

OF_A_LINK = re.compile(r"(/join\.(sh|ipynb))?/*$")  # what people paste with it
PEER_ADDRESS = ("/ip4/", "/ip6/", "/dns")  # how multiaddrs begin
LETTER = r"[\w\u0080-\U0010ffff]"  # vowel signs, as in বাংলা, are not in \w
HOST = re.compile(rf"{LETTER}(-|{LETTER})*(\.{LETTER}(-|{LETTER})*)*\.?")


def coordinator_url(given: str) -> str:
    """The URL without a trailing slash; a scheme is added where there is none.

    An IP address, a name without dots or an unusual port means a private machine, which speaks plain HTTP;
    a domain name alone for a public server, which speaks HTTPS.

    Raises:
        JoinProblem: it is not a URL.
    """
    text = given.strip()
    if Path(text).suffix in (".yaml", ".yml"):
        reason = _("{given}: this is a run file; give the run's link instead").format(given=one_line(text))
        raise JoinProblem(ProblemKind.BAD_URL, reason)
    if text.startswith(PEER_ADDRESS):
        raise JoinProblem(
            ProblemKind.BAD_URL,
            _("{given}: not a URL but a peer's address; give the run's link, as {example}").format(
                given=one_line(text), example=_example()
            ),
        )
    parts = _split(text if "://" in text else f"//{text}", given)
    host = parts.hostname or ""
    is_address = _is_address(host)
    is_host = is_address or (HOST.fullmatch(host) is not None and host not in ("http", "https"))  # from http:/host
    if parts.scheme not in ("", "http", "https") or not is_host or "@" in parts.netloc:
        raise _not_a_url(given)
    port = _port(parts, given)
    is_private_machine = is_address or "." not in host or port not in (None, 443)
    scheme = parts.scheme or ("http" if is_private_machine else "https")
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}{'' if port is None else f':{port}'}{OF_A_LINK.sub('', parts.path)}"


def is_loopback(url: str) -> bool:
    """Whether the URL is of this machine."""
    return is_this_machine(urlsplit(url).hostname or "")


def is_private(url: str) -> bool:
    """Whether the connection is encrypted, or within this machine."""
    return url.startswith("https://") or is_loopback(url)


def _split(text: str, given: str) -> SplitResult:
    if not text.isprintable() or " " in text:
        raise _not_a_url(given)
    try:
        return urlsplit(text)
    except ValueError:
        raise _not_a_url(given) from None


def _port(parts: SplitResult, given: str) -> int | None:
    with contextlib.suppress(ValueError):
        if parts.port != 0:
            return parts.port
    raise JoinProblem(
        ProblemKind.BAD_URL,
        _("{given}: the port must be a number from 1 to 65535; correct the URL").format(given=one_line(given)),
    )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _not_a_url(given: str) -> JoinProblem:
    return JoinProblem(
        ProblemKind.BAD_URL,
        _("{given}: not a URL; give the run's link, as {example}").format(
            given=one_line(given) or repr(given), example=_example()
        ),
    )


def _example() -> str:
    return _("{one} or {other}").format(one="https://run.example.org", other="http://192.0.2.1:8080")
