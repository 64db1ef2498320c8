"""Decides what to say about passes and about the peers of a run."""

from collections.abc import Mapping, Sequence

from app.doctor.asking import Broken
from app.doctor.machine_findings import REINSTALL
from app.doctor.network import PeerAddress
from app.doctor.peer_process import PassSeen
from app.doctor.results import Check, CheckResult, TooLate, fault, ok, skipped, warning
from app.join.problems import NO_ROUTE, JoinProblem, ProblemKind
from swarm.access.join_messages import JoinAnswer
from swarm.language import _, several

LATER = (ProblemKind.PAUSED, ProblemKind.TOO_MANY, ProblemKind.HUB_AWAY)  # a newcomer only has to wait
MOST_NAMED = 2  # addresses in a line


def passes(
    answered: JoinAnswer | Exception | str, used: Sequence[PassSeen], now: float, *, token_named: bool
) -> CheckResult:
    """Whether this machine has, or would get, a pass.

    Args:
        answered: what came of asking for a new one; a reason if it was not asked for.
        used: those with which this machine trains now.
        now: unix time, seconds.
        token_named: the line about the token names a fault.
    """
    for one in used:
        if one.good is False:
            return fault(
                Check.PASS,
                _(
                    "the program that trains here as {user} has a pass of another run, which other peers refuse; stop "
                    "it (Ctrl-C) and join again"
                ).format(user=one.user),
            )
        if one.expires <= now:
            return fault(
                Check.PASS,
                _(
                    "the pass with which this machine trains as {user} expired {time} ago, and other peers refuse "
                    "it{why}; stop the program (Ctrl-C) and join again"
                ).format(user=one.user, time=_amount(now - one.expires), why=_why(answered)),
            )
    if isinstance(answered, JoinAnswer):
        return ok(Check.PASS, _("the coordinator gives one to {user}").format(user=answered.user))
    if isinstance(answered, JoinProblem):
        if token_named and answered.kind in (ProblemKind.TOKEN_REJECTED, ProblemKind.TOKEN_MISSING):
            return skipped(Check.PASS, _("see {check}").format(check=Check.TOKEN.value))
        return (warning if answered.kind in LATER else fault)(Check.PASS, str(answered))
    if isinstance(answered, TooLate):
        return warning(Check.PASS, _("the coordinator has not answered in time; try again later"))
    if isinstance(answered, Broken):
        return fault(
            Check.PASS,
            _("this machine's identity cannot be read or made ({reason}); if that gives no way out, {way_out}").format(
                reason=answered, way_out=_(REINSTALL)
            ),
        )
    if isinstance(answered, Exception):
        raise answered
    return skipped(Check.PASS, answered)


def peers(
    found: Mapping[PeerAddress, Exception | None], answered: JoinAnswer | Exception | str, coordinators: str
) -> CheckResult:
    """Whether the peers that a newcomer joins by take connections.

    Args:
        found: what stands in the way to each address.
        answered: what came of asking for a pass; the answer names these addresses.
        coordinators: the coordinator's peer id, where it is known.
    """
    if not found and isinstance(answered, JoinAnswer):
        return fault(
            Check.PEERS,
            _(
                "the coordinator announces no address by which another machine finds it; tell the organizer to set "
                "coordinator.announce in the run file"
            ),
        )
    if not found:
        return skipped(
            Check.PEERS, answered if isinstance(answered, str) else _("see {check}").format(check=Check.PASS.value)
        )
    reached = {one.peer_id for one, error in found.items() if error is None}
    named = {one.peer_id for one in found}
    silent = [one for one in found if one.peer_id not in reached]
    shown = "; ".join(f"{one.address}: {_reason(found[one])}" for one in silent[:MOST_NAMED])
    if len(silent) > MOST_NAMED:
        shown = _("{peers}; and {n} more").format(peers=shown, n=len(silent) - MOST_NAMED)
    ports = ", ".join(sorted({str(one.port) for one in found}))
    if not reached:
        return fault(
            Check.PEERS,
            _(
                "no peer of the run can be reached ({peers}); let the firewall here pass outgoing TCP to port {ports}, "
                "or tell the organizer that it is closed"
            ).format(peers=shown, ports=ports),
        )
    if coordinators in {one.peer_id for one in silent}:
        return warning(
            Check.PEERS,
            _(
                "the coordinator's port for peers cannot be reached, though other peers can ({peers}); let a firewall "
                "here pass it, or tell the organizer"
            ).format(peers=shown),
        )
    if silent:
        return warning(
            Check.PEERS,
            _(
                "{n} of {all} known peers take connections, the others may have left ({peers}); nothing to do while "
                "one is there"
            ).format(n=len(reached), all=len(named), peers=shown),
        )
    told = several(
        "one known peer takes connections on TCP port {ports}, as needed to join",
        "all {n} known peers take connections on TCP port {ports}, as needed to join",
        len(reached),
    )
    return ok(Check.PEERS, told.format(n=len(reached), ports=ports))


def _reason(error: Exception | None) -> str:
    if isinstance(error, ConnectionRefusedError):
        return _("nothing is listening there")
    if isinstance(error, TimeoutError):
        return _("no answer")
    if isinstance(error, OSError) and error.errno in NO_ROUTE:
        return _("no network route")
    return str(error)


def _why(answered: JoinAnswer | Exception | str) -> str:
    return _(" (a new one is refused: {reason})").format(reason=answered) if isinstance(answered, JoinProblem) else ""


def _amount(seconds: float) -> str:
    if seconds < 120:
        return _("{n} s").format(n=f"{seconds:.0f}")
    if seconds < 7200:
        return _("{n} minutes").format(n=f"{seconds / 60:.0f}")
    return _("{n} hours").format(n=f"{seconds / 3600:.0f}")
