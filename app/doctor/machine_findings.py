"""Decides what to say about this machine: from what was observed to a line with the way out."""

from collections.abc import Sequence

from app.doctor.machine import TokenSeen
from app.doctor.peer_process import TorchSeen
from app.doctor.results import Check, CheckResult, TooLate, fault, ok, skipped, warning
from app.join.hub_token import how_to_make
from app.join.machine_checks import Computer, Finding, size
from app.join.problems import ProblemKind
from swarm.errors import StorageError
from swarm.language import _, mark

MORE_TIME = mark("wait until the machine is less busy, or give the doctor more time with --patience 60")
REINSTALL = mark("install the program again into a fresh virtual environment")


def torch(seen: TorchSeen | Exception, found: Sequence[Finding]) -> CheckResult:
    """Whether torch works, and on what; `found` is what joining says about the machine."""
    if isinstance(seen, TooLate):
        return warning(Check.TORCH, _("torch has not loaded in time; {way_out}").format(way_out=_(MORE_TIME)))
    if isinstance(seen, Exception):
        told = _("torch cannot be used ({reason}); {way_out}")
        return fault(Check.TORCH, told.format(reason=seen, way_out=_(REINSTALL)))
    formats = _(" or ").join(seen.formats)
    shown = _("{version}, which computes on {device} in {formats}").format(
        version=seen.version, device=seen.name, formats=formats
    )
    if seen.idle_gpu:
        return warning(
            Check.TORCH,
            _(
                "{found}, not on the NVIDIA GPU of this machine; install a torch with CUDA and a driver that fits it "
                "(https://pytorch.org/get-started), or go on slowly"
            ).format(found=shown),
        )
    return _with_findings(Check.TORCH, found, "GPU memory", shown)


def memory(computer: Computer, found: Sequence[Finding]) -> CheckResult:
    """Whether there is enough of it."""
    free, total = size(computer.memory_available), size(computer.memory_total)
    shown = _("{free} of {all} are free").format(free=free, all=total)
    return _with_findings(Check.MEMORY, found, "memory", shown)


def disk(computer: Computer, found: Sequence[Finding], cannot_write: Exception | None) -> CheckResult:
    """Whether the folder of a peer can be written to, and has room."""
    if cannot_write is not None and not isinstance(cannot_write, StorageError):
        raise cannot_write
    if cannot_write is not None:
        hint = "" if "full" in str(cannot_write) else " with --state"
        return fault(Check.DISK, f"{cannot_write}{hint}")
    return _with_findings(
        Check.DISK,
        found,
        "disk",
        _("{free} are free where the peer keeps its files").format(free=size(computer.disk_free)),
    )


def token(seen: TokenSeen | Exception, *, needed: bool | None) -> CheckResult:
    """Whether the Hugging Face token serves; `needed` by the run, None if that is not known."""
    if isinstance(seen, TooLate):
        return warning(Check.TOKEN, _("the Hub has not said in time whose the token is; try again in some minutes"))
    if isinstance(seen, Exception):
        raise seen
    source = seen.token.source if seen.token is not None else ""
    if seen.problem is not None:
        # an open run takes a name, and whatever the Hub is asked, it may be away
        bad = needed is not False and seen.problem.kind is not ProblemKind.HUB_AWAY
        told = _("{problem}; or join without a token: --name NAME") if needed is False else "{problem}"
        return (fault if bad else warning)(Check.TOKEN, told.format(problem=seen.problem))
    if seen.token is not None:
        told = _("the token from {source} is {user}'s and cannot change anything")
        return ok(Check.TOKEN, told.format(source=source, user=seen.user))
    if needed is False:
        return ok(Check.TOKEN, _("none, and this run needs none"))
    if needed:
        return warning(
            Check.TOKEN,
            _(
                "there is none on this machine, so `sahaj join` will ask for one; {how}; with it in HF_TOKEN the "
                "doctor looks further"
            ).format(how=how_to_make()),
        )
    return skipped(Check.TOKEN, _("there is none on this machine; only runs that are not open ask for one"))


def _with_findings(check: Check, found: Sequence[Finding], about: str, otherwise: str) -> CheckResult:
    for result, fatal in ((fault, True), (warning, False)):
        for finding in found:
            if finding.about == about and finding.fatal is fatal:
                return result(check, finding.message)
    return ok(check, otherwise)
