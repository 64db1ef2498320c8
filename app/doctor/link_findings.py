"""Decides what to say about the way to a coordinator, and about what it answers."""

from urllib.parse import urlsplit

from app.doctor.network import LinkSeen
from app.doctor.results import Check, CheckResult, fault, ok, skipped, warning
from app.join.address import is_loopback
from app.join.coordinator_client import RunDescription
from app.join.problems import JoinProblem, ProblemKind
from swarm.clock import SLACK, describe_offset
from swarm.hosts import is_this_machine
from swarm.language import _, mark
from swarm.version import describe_mismatch, release_of

DATE_STEP = 1.0  # seconds: what the Date of an answer is rounded down to
UNKNOWN = mark("the coordinator does not answer")


def dns(seen: LinkSeen) -> CheckResult:
    """Whether the host of the link has an address."""
    host = urlsplit(seen.url).hostname or ""
    if not isinstance(seen.addresses, JoinProblem):
        same = seen.addresses == [host]
        told = _("{host} needs no name server") if same else _("{host} is {addresses}")
        return ok(Check.DNS, told.format(host=host, addresses=", ".join(seen.addresses[:3])))
    if seen.proxy is not None and isinstance(seen.run, RunDescription):
        return warning(
            Check.DNS,
            _(
                "{host}: not known to the name servers of this machine, only to the proxy, which does not carry the "
                "training; ask the organizer for an address that this machine knows"
            ).format(host=host),
        )
    return fault(Check.DNS, str(seen.addresses))


def proxy(seen: LinkSeen) -> CheckResult:
    """Whether the proxy of the environment is of use."""
    if seen.proxy is None:
        return ok(Check.PROXY, _("none is used"))
    if isinstance(seen.run, RunDescription):
        told = _("{proxy} lets this program through to the coordinator")
        return ok(Check.PROXY, told.format(proxy=seen.proxy.shown))
    if seen.run.kind is ProblemKind.PROXY:
        return fault(Check.PROXY, str(seen.run))
    told = _(
        "{proxy} is used, and the coordinator does not answer; check the link, and see whether NO_PROXY={host} helps"
    )
    say = fault if _is_answer_of_proxy(seen) else warning
    return say(Check.PROXY, told.format(proxy=seen.proxy.shown, host=urlsplit(seen.url).hostname))


def _is_answer_of_proxy(seen: LinkSeen) -> bool:
    """Whether a proxy is in the way: with https it is known to be one, with http its answer is no coordinator's."""
    if seen.proxy is None or isinstance(seen.run, RunDescription):
        return False
    is_plain = not seen.url.startswith("https://")
    return seen.run.kind is ProblemKind.PROXY or (is_plain and seen.run.kind is ProblemKind.NOT_A_COORDINATOR)


def encryption(seen: LinkSeen, *, token_needed: bool | None) -> CheckResult:
    """Whether others can read what is sent to the coordinator."""
    if not seen.url.startswith("https://"):
        if is_loopback(seen.url):
            return ok(Check.ENCRYPTION, _("not needed: the coordinator is on this machine"))
        if token_needed is False:
            return ok(Check.ENCRYPTION, _("none, and no token is sent: the run is open"))
        return warning(
            Check.ENCRYPTION,
            _("{url} is not encrypted: a token could be read on the way; ask the organizer for an https link").format(
                url=seen.url
            ),
        )
    if isinstance(seen.run, RunDescription):
        return ok(Check.ENCRYPTION, _("the certificate is valid"))
    if seen.run.kind is ProblemKind.TLS:
        return fault(Check.ENCRYPTION, str(seen.run))
    return skipped(Check.ENCRYPTION, _(UNKNOWN))


def coordinator(seen: LinkSeen) -> CheckResult:
    """Whether the coordinator answers at the link."""
    if isinstance(seen.run, RunDescription):
        return ok(Check.COORDINATOR, _("the run {run} answers at {url}").format(run=seen.run.name, url=seen.url))
    if _is_answer_of_proxy(seen):
        return skipped(Check.COORDINATOR, _("see {check}").format(check=Check.PROXY.value))
    if isinstance(seen.addresses, JoinProblem) and seen.proxy is None:
        return skipped(Check.COORDINATOR, _("see {check}").format(check=Check.DNS.value))
    if seen.run.kind is ProblemKind.TLS:
        return skipped(Check.COORDINATOR, _("see {check}").format(check=Check.ENCRYPTION.value))
    return fault(Check.COORDINATOR, str(seen.run))


def clock(seen: LinkSeen) -> CheckResult:
    """Whether this machine's clock agrees with the coordinator's: peers refuse one that is more than `SLACK` off."""
    if seen.ahead is None:
        return skipped(Check.CLOCK, _(UNKNOWN))
    ahead = seen.ahead + DATE_STEP / 2
    if abs(ahead) > SLACK + DATE_STEP:
        return fault(Check.CLOCK, describe_offset(ahead, mark("the coordinator's")))
    return ok(Check.CLOCK, _("within {n} s of the coordinator's").format(n=f"{SLACK + DATE_STEP:.0f}"))


def version(seen: LinkSeen, here: str) -> CheckResult:
    """Whether this program has the run's version."""
    if not isinstance(seen.run, RunDescription):
        told = _("the coordinator does not answer; this program is Sahaj {version}")
        return skipped(Check.VERSION, told.format(version=here))
    if release_of(seen.run.version) != release_of(here):
        return fault(Check.VERSION, describe_mismatch(seen.run.version, here))
    return ok(Check.VERSION, _("Sahaj {version}, which the run works with").format(version=here))


def incoming(own: str, *, client_mode: bool, udp: bool | None) -> CheckResult:
    """Whether others can connect to this machine, as joining guesses it from its address `own` on the way there.

    Args:
        udp: whether a peer of the run answers by UDP; None: none is known.
    """
    if not own:
        return skipped(Check.INCOMING, _("no network route to the coordinator"))
    if is_this_machine(own):
        return ok(Check.INCOMING, _("the coordinator is on this machine"))
    if not client_mode:
        told = _("others can probably connect to {address}, unless a firewall is in between")
        return ok(Check.INCOMING, told.format(address=own))
    if udp:
        told = _(
            "others probably cannot connect to {address}, as with most routers; training works anyway (client mode), "
            "and UDP gets through, so most routers will still allow direct connections"
        )
    elif udp is None:
        told = _(
            "others probably cannot connect to {address}, as with most routers; training works anyway (client mode)"
        )
    else:
        told = _(
            "others probably cannot connect to {address}, as with most routers; training works anyway (client mode), "
            "but this machine cannot average for others, because no peer answers over UDP; a firewall at either end "
            "may be blocking it"
        )
    return ok(Check.INCOMING, told.format(address=own))
