"""What can go wrong on the way into a run: each problem has a class and an exit status of its own."""

from swarm.access.join_messages import Refusal
from swarm.errors import SahajError

LONGEST_LINE = 400  # characters of a message from outside


class JoinProblem(SahajError):
    """Something on the way into a run.

    `status` is the HTTP status behind it, `retry_after` how many seconds the coordinator asks to wait.
    """

    exit_status = 20

    def __init__(self, message: str, *, status: int | None = None, retry_after: float = 0.0):
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


class AddressProblem(JoinProblem):
    """What was given is no URL of a coordinator."""

    exit_status = 20


class NoSuchHost(JoinProblem):
    """The URL's host name is unknown."""

    exit_status = 21


class CoordinatorAway(JoinProblem):
    """Nobody listens there now."""

    exit_status = 22


class NoAnswer(JoinProblem):
    """The coordinator did not answer in time."""

    exit_status = 23


class TlsProblem(JoinProblem):
    """No encrypted connection could be made."""

    exit_status = 24


class NotACoordinator(JoinProblem):
    """Something else than a coordinator of this program answers."""

    exit_status = 25


class TokenMissing(JoinProblem):
    """The run wants a Hugging Face token, and there is none."""

    exit_status = 26


class TokenRejected(JoinProblem):
    """The Hub does not know the token."""

    exit_status = 27


class TokenTooStrong(JoinProblem):
    """The token may change things on the Hub; joining needs no permission at all."""

    exit_status = 28


class NotAllowed(JoinProblem):
    """The run's access rule does not name this person."""

    exit_status = 29


class Banned(JoinProblem):
    """The organizer has banned this person."""

    exit_status = 30


class WrongVersion(JoinProblem):
    """This program is too old or too new for the run."""

    exit_status = 31


class WrongFingerprint(JoinProblem):
    """This peer would train something else than the others."""

    exit_status = 32


class RunPaused(JoinProblem):
    """Newcomers are asked to come back later."""

    exit_status = 33


class RunFinished(JoinProblem):
    """The run is over."""

    exit_status = 34


class TooManyAttempts(JoinProblem):
    """The coordinator wants a pause."""

    exit_status = 35


class HubAway(JoinProblem):
    """The Hugging Face Hub cannot be asked now."""

    exit_status = 36


class ClockWrong(JoinProblem):
    """This machine's clock differs too much from the coordinator's: passes would look expired."""

    exit_status = 37


class ManifestProblem(JoinProblem):
    """What the coordinator hands out cannot be used, or is not safe to use."""

    exit_status = 38


class MachineTooSmall(JoinProblem):
    """Not enough disk or memory."""

    exit_status = 39


class NameProblem(JoinProblem):
    """The self-chosen name cannot be used."""

    exit_status = 40


class AdminKeyProblem(JoinProblem):
    """The key file of the organizer is missing, or not this run's."""

    exit_status = 41


class CommandRefused(JoinProblem):
    """The coordinator does not take this command."""

    exit_status = 42


REFUSALS: dict[Refusal, type[JoinProblem]] = {
    Refusal.MALFORMED: CommandRefused,
    Refusal.TOKEN_MISSING: TokenMissing,
    Refusal.TOKEN_REJECTED: TokenRejected,
    Refusal.NOT_ALLOWED: NotAllowed,
    Refusal.BANNED: Banned,
    Refusal.WRONG_VERSION: WrongVersion,
    Refusal.WRONG_FINGERPRINT: WrongFingerprint,
    Refusal.PAUSED: RunPaused,
    Refusal.FINISHED: RunFinished,
    Refusal.TOO_MANY: TooManyAttempts,
    Refusal.HUB_AWAY: HubAway,
}


def one_line(text: str) -> str:
    """Text from outside, safe to print: one line of limited length, without control characters."""
    words = "".join(char if char.isprintable() else " " for char in text[: 4 * LONGEST_LINE]).split()
    line = " ".join(words)
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"
