"""What a check has found: a mark, and one line with the way out."""

from dataclasses import dataclass
from enum import Enum

from app.join.problems import one_line
from swarm.language import _


class Mark(str, Enum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"  # it works, but not as well as it could, or not for long
    FAULT = "fault"  # this machine cannot take part
    SKIPPED = "skipped"  # not checked: another line says why


class Check(str, Enum):
    """What is looked at, in the order in which it is shown."""

    PYTHON = "python"
    TORCH = "torch"
    MEMORY = "memory"
    DISK = "disk"
    TOKEN = "token"
    LINK = "link"
    DNS = "dns"
    PROXY = "proxy"
    ENCRYPTION = "encryption"
    COORDINATOR = "coordinator"
    CLOCK = "clock"
    VERSION = "version"
    PASS = "pass"
    PEERS = "peers"
    INCOMING = "incoming"


@dataclass(frozen=True)
class CheckResult:
    """One line of the report."""

    check: Check
    mark: Mark
    message: str  # of one line: what others have told is made printable

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", one_line(self.message))


class TooLate(Exception):
    """What a check waits for has not come in time."""

    def __init__(self) -> None:
        super().__init__("not done in time")


def ok(check: Check, message: str) -> CheckResult:
    """Nothing is wrong."""
    return CheckResult(check, Mark.OK, message)


def warning(check: Check, message: str) -> CheckResult:
    """It works, but."""
    return CheckResult(check, Mark.WARNING, message)


def fault(check: Check, message: str) -> CheckResult:
    """It does not work; the message ends with the way out."""
    return CheckResult(check, Mark.FAULT, message)


def skipped(check: Check, because: str) -> CheckResult:
    """It was not looked at."""
    return CheckResult(check, Mark.SKIPPED, _("not checked: {reason}").format(reason=because))
