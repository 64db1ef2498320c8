"""Decides what to say about the way to a coordinator, and about what it answers."""

from urllib.parse import urlsplit

from app.doctor.network import LinkSeen
from app.doctor.results import Check, CheckResult, Mark, fault, ok, skipped, warning
from app.join.address import is_loopback
from app.join.coordinator_client import RunDescription
from app.join.problems import JoinProblem, ProblemKind
from swarm.clock import SLACK, describe_offset
from swarm.hosts import is_this_machine
from swarm.language import mark
from swarm.program import describe_mismatch, release_of

DATE_STEP = 1.0  # seconds: what the Date of an answer is rounded down to
UNKNOWN = "the coordinator does not answer"


def dns(seen: LinkSeen) -> CheckResult:
    """Whether the host of the link has an address."""
    host = urlsplit(seen.url).hostname or ""
    if not isinstance(seen.addresses, JoinProblem):
        same = seen.addresses == [host]
        return ok(Check.DNS, f"{host} needs no name server" if same else f"{host} is {', '.join(seen.addresses[:3])}")
    if seen.proxy is not None and isinstance(seen.run, RunDescription):
        return warning(
            Check.DNS,
            f"{host}: not known to the name servers of this machine, only to the proxy, which does not carry the "
            "training; ask the organizer for an address that this machine knows",
        )
    return fault(Check.DNS, str(seen.addresses))


def proxy(seen: LinkSeen) -> CheckResult:
    """Whether the proxy of the environment is of use."""
    if seen.proxy is None:
        return ok(Check.PROXY, "none is used")
    if isinstance(seen.run, RunDescription):
        return ok(Check.PROXY, f"{seen.proxy.shown} lets this program through to the coordinator")
    if isinstance(seen.without_proxy, RunDescription):
        host = urlsplit(seen.url).hostname
        return fault(
            Check.PROXY,
            f"{seen.proxy.shown} is in the way, and without it the coordinator answers; name {host} in NO_PROXY",
        )
    if seen.run.kind is ProblemKind.PROXY:
        return fault(Check.PROXY, str(seen.run))
    return warning(
        Check.PROXY, f"{seen.proxy.shown} is used, and the coordinator does not answer; see whether NO_PROXY helps"
    )


def encryption(seen: LinkSeen, *, token_needed: bool | None) -> CheckResult:
    """Whether others can read what is sent to the coordinator."""
    if not seen.url.startswith("https://"):
        if is_loopback(seen.url):
            return ok(Check.ENCRYPTION, "not needed: the coordinator is on this machine")
        if token_needed is False:
            return ok(Check.ENCRYPTION, "none, and no token is sent: the run is open")
        return warning(
            Check.ENCRYPTION,
            f"{seen.url} is not encrypted: a token could be read on the way; ask the organizer for an https link",
        )
    if isinstance(seen.run, RunDescription):
        return ok(Check.ENCRYPTION, "the certificate is valid")
    if seen.run.kind is ProblemKind.TLS:
        return fault(Check.ENCRYPTION, str(seen.run))
    return skipped(Check.ENCRYPTION, UNKNOWN)


def coordinator(seen: LinkSeen) -> CheckResult:
    """Whether the coordinator answers at the link."""
    if isinstance(seen.run, RunDescription):
        return ok(Check.COORDINATOR, f"the run {seen.run.name} answers at {seen.url}")
    if proxy(seen).mark is Mark.FAULT:
        return skipped(Check.COORDINATOR, f"see {Check.PROXY.value}")
    if isinstance(seen.addresses, JoinProblem) and seen.proxy is None:
        return skipped(Check.COORDINATOR, f"see {Check.DNS.value}")
    if seen.run.kind is ProblemKind.TLS:
        return skipped(Check.COORDINATOR, f"see {Check.ENCRYPTION.value}")
    return fault(Check.COORDINATOR, str(seen.run))


def clock(seen: LinkSeen) -> CheckResult:
    """Whether this machine's clock agrees with the coordinator's: peers refuse one that is more than `SLACK` off."""
    if seen.ahead is None:
        return skipped(Check.CLOCK, UNKNOWN)
    ahead = seen.ahead + DATE_STEP / 2
    if abs(ahead) > SLACK + DATE_STEP:
        return fault(Check.CLOCK, describe_offset(ahead, mark("the coordinator's")))
    return ok(Check.CLOCK, f"within {SLACK + DATE_STEP:.0f} s of the coordinator's")


def version(seen: LinkSeen, here: str) -> CheckResult:
    """Whether this program has the run's version."""
    if not isinstance(seen.run, RunDescription):
        return skipped(Check.VERSION, f"{UNKNOWN}; this program is Sahaj {here}")
    if release_of(seen.run.version) != release_of(here):
        return fault(Check.VERSION, describe_mismatch(seen.run.version, here))
    return ok(Check.VERSION, f"Sahaj {here}, which the run works with")


def incoming(own: str, *, client_mode: bool, udp: bool | None) -> CheckResult:
    """Whether others can connect to this machine, as joining guesses it from its address `own` on the way there.

    Args:
        udp: whether a peer of the run answers by UDP; None: none is known.
    """
    if not own:
        return skipped(Check.INCOMING, "no way leads to the coordinator")
    if is_this_machine(own):
        return ok(Check.INCOMING, "the coordinator is on this machine")
    if not client_mode:
        return ok(Check.INCOMING, f"others can probably connect to {own}, unless a firewall is in between")
    behind = f"others can probably not connect to {own}, as behind most routers; training works without (client mode)"
    if udp:
        return ok(Check.INCOMING, f"{behind}, and UDP gets through: most routers let ways to others be opened by it")
    if udp is None:
        return ok(Check.INCOMING, behind)
    return ok(
        Check.INCOMING,
        f"{behind}; this machine averages nothing for others, since no peer answers by UDP: a firewall here or there "
        "may block it",
    )
