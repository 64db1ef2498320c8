"""From what was observed to the lines of the report."""

import platform
from collections.abc import Callable
from typing import TypeVar

from app.doctor import link_findings, machine_findings, run_findings
from app.doctor.observing import Observed, RunSeen
from app.doctor.results import Check, CheckResult, Mark, TooLate, fault, ok, warning
from app.join.machine_checks import findings
from app.join.problems import one_line
from swarm.errors import SahajError
from swarm.language import _

T = TypeVar("T")
Decision = Callable[[], CheckResult]


def results(seen: Observed, now: float) -> list[CheckResult]:
    """A line for each check, in their order; `now` in unix time, seconds."""
    run = seen.run if isinstance(seen.run, RunSeen) else None
    needed = None if run is None or run.description is None else not run.description.access.open
    found = [] if isinstance(seen.computer, Exception) else list(findings(run.run if run else None, seen.computer))
    decisions: dict[Check, Decision] = {
        Check.PYTHON: lambda: ok(Check.PYTHON, platform.python_version()),
        Check.TORCH: lambda: machine_findings.torch(seen.torch, found),
        Check.MEMORY: lambda: machine_findings.memory(_there(seen.computer), found),
        Check.DISK: lambda: machine_findings.disk(_there(seen.computer), found, seen.unwritable),
        Check.TOKEN: lambda: machine_findings.token(seen.token, needed=needed),
    }
    named = {check: _guarded(check, decide) for check, decide in decisions.items()}
    if run is not None:
        link = run.link
        token_named = named[Check.TOKEN].mark is Mark.FAULT
        decisions = {
            Check.DNS: lambda: link_findings.dns(link),
            Check.PROXY: lambda: link_findings.proxy(link),
            Check.ENCRYPTION: lambda: link_findings.encryption(link, token_needed=needed),
            Check.COORDINATOR: lambda: link_findings.coordinator(link),
            Check.CLOCK: lambda: link_findings.clock(link),
            Check.VERSION: lambda: link_findings.version(link, seen.version),
            Check.PASS: lambda: run_findings.passes(run.answered, run.passes, now, token_named=token_named),
            Check.PEERS: lambda: run_findings.peers(run.peers, run.answered, run.coordinators),
            Check.INCOMING: lambda: link_findings.incoming(run.own_address, client_mode=run.client_mode, udp=run.udp),
        }
        named |= {check: _guarded(check, decide) for check, decide in decisions.items()}
    elif isinstance(seen.run, Exception):
        named[Check.LINK] = _failed(Check.LINK, seen.run)
    return [named[check] for check in Check if check in named]


def _guarded(check: Check, decide: Decision) -> CheckResult:
    try:
        return decide()
    except Exception as error:
        return _failed(check, error)


def _failed(check: Check, error: Exception) -> CheckResult:
    if isinstance(error, TooLate):
        return warning(check, _("not done in time; {way_out}").format(way_out=_(machine_findings.MORE_TIME)))
    if isinstance(error, SahajError):
        return fault(check, str(error))
    told = _("the check itself failed ({error}); send the organizer what `sahaj doctor LINK --json` prints")
    return fault(check, one_line(told.format(error=f"{type(error).__name__}: {error}")))


def _there(seen: T | Exception) -> T:
    if isinstance(seen, Exception):
        raise seen
    return seen
