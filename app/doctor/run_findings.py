"""Decides what to say about passes and about the peers of a run."""

from collections.abc import Mapping, Sequence

from app.doctor.asking import Broken
from app.doctor.machine_findings import REINSTALL
from app.doctor.network import PeerAddress
from app.doctor.peer_process import PassSeen
from app.doctor.results import Check, CheckResult, TooLate, fault, ok, skipped, warning
from app.join.problems import NO_ROUTE, JoinProblem, ProblemKind
from swarm.access.join_messages import JoinAnswer

LATER = (ProblemKind.PAUSED, ProblemKind.TOO_MANY, ProblemKind.HUB_AWAY)  # a newcomer only has to wait
MOST_NAMED = 2  # addresses in a line


def passes(
    answered: JoinAnswer | Exception | str, kept: Sequence[PassSeen], now: float, *, token_named: bool
) -> CheckResult:
    """Whether this machine has, or would get, a pass.

    Args:
        answered: what came of asking for a new one; a reason if it was not asked for.
        kept: those of peers on this machine.
        now: unix time, seconds.
        token_named: the line about the token names a fault.
    """
    used = [one for one in kept if one.in_use]
    for one in used:
        if one.good is False:
            return fault(
                Check.PASS,
                f"the program that trains here as {one.user} has a pass of another run, which other peers refuse; "
                "stop it (Ctrl-C) and join again",
            )
        if one.expires <= now:
            return fault(
                Check.PASS,
                f"the pass with which this machine trains as {one.user} has expired {_ago(now - one.expires)}, and "
                f"other peers refuse it{_why(answered)}; stop the program (Ctrl-C) and join again",
            )
    if isinstance(answered, JoinAnswer):
        return ok(Check.PASS, f"the coordinator gives one to {answered.user}{_replaced(kept, now)}")
    if isinstance(answered, JoinProblem):
        if token_named and answered.kind in (ProblemKind.TOKEN_REJECTED, ProblemKind.TOKEN_MISSING):
            return skipped(Check.PASS, f"see {Check.TOKEN.value}")
        return (warning if answered.kind in LATER else fault)(Check.PASS, str(answered))
    if isinstance(answered, TooLate):
        return warning(Check.PASS, "the coordinator has not answered in time; try again later")
    if isinstance(answered, Broken):
        return fault(
            Check.PASS, f"this machine's peer cannot be made ({answered}); if that does not say how, {REINSTALL}"
        )
    if isinstance(answered, Exception):
        raise answered
    return _of_earlier_sessions(answered, kept, now)


def _of_earlier_sessions(not_asked: str, kept: Sequence[PassSeen], now: float) -> CheckResult:
    if not kept:
        return skipped(Check.PASS, not_asked)
    newest = max(kept, key=lambda one: one.expires)
    if newest.expires <= now:
        return warning(
            Check.PASS,
            f"that of {newest.user} has expired {_ago(now - newest.expires)}; joining asks for a new one as soon as "
            f"that is possible ({not_asked})",
        )
    return ok(Check.PASS, f"{newest.user} has one, good for {_amount(newest.expires - now)}")


def peers(
    found: Mapping[PeerAddress, OSError | None], answered: JoinAnswer | Exception | str, coordinators: str
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
            "the coordinator announces no address by which another machine finds it; tell the organizer to set "
            "coordinator.announce in the run file",
        )
    if not found:
        return skipped(Check.PEERS, answered if isinstance(answered, str) else f"see {Check.PASS.value}")
    reached = {one.peer_id for one, error in found.items() if error is None}
    named = {one.peer_id for one in found}
    silent = [one for one in found if one.peer_id not in reached]
    shown = "; ".join(f"{one.address}: {_reason(found[one])}" for one in silent[:MOST_NAMED])
    more = f"; and {len(silent) - MOST_NAMED} more" if len(silent) > MOST_NAMED else ""
    ports = ", ".join(sorted({str(one.port) for one in found}))
    if not reached:
        return fault(
            Check.PEERS,
            f"no peer of the run can be reached ({shown}{more}); let the firewall here pass outgoing TCP to port "
            f"{ports}, or tell the organizer that it is closed",
        )
    if coordinators in {one.peer_id for one in silent}:
        return warning(
            Check.PEERS,
            f"the coordinator's libp2p port cannot be reached, though other peers can ({shown}{more}); let a firewall "
            "here pass it, or tell the organizer",
        )
    if silent:
        return warning(
            Check.PEERS,
            f"{len(reached)} of {len(named)} known peers take connections, the others may have left ({shown}{more}); "
            "nothing to do while one is there",
        )
    return ok(Check.PEERS, f"{_count(len(reached))} on TCP port {ports}, as needed to join")


def _count(reached: int) -> str:
    return "one known peer takes connections" if reached == 1 else f"all {reached} known peers take connections"


def _reason(error: OSError | None) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there"
    if isinstance(error, TimeoutError):
        return "no answer"
    if error is not None and error.errno in NO_ROUTE:
        return "no way leads there"
    return str(error)


def _why(answered: JoinAnswer | Exception | str) -> str:
    return f" (a new one is refused: {answered})" if isinstance(answered, JoinProblem) else ""


def _replaced(kept: Sequence[PassSeen], now: float) -> str:
    if any(one.in_use for one in kept):
        return ", which trains here with one that is good"
    if any(one.good is False for one in kept):
        return "; the one that lies here is another run's, and joining replaces it"
    if kept and all(one.expires <= now for one in kept):
        return "; the one of an earlier session has expired, as usual"
    return ""


def _ago(seconds: float) -> str:
    return f"{_amount(seconds)} ago"


def _amount(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.0f} hours"
